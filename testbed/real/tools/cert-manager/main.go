// Runs cert-manager's controllers and its CA injector against the API server of a kubeconfig.
//
// cert-manager publishes its controllers as a module of packages, but not its commands. This program starts what
// issues certificates of the issuers SelfSigned and CA: no ACME, no leader election, no webhook.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/util"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// version is set by the linker.
var version = "unknown"

const workers = 2

func main() {
	showsVersion := flag.Bool("version", false, "print the version of cert-manager")
	flag.Parse()
	if *showsVersion {
		os.Stdout.WriteString("cert-manager " + version + "\n")
		return
	}
	kubeconfig := flag.Lookup("kubeconfig").Value.String() // controller-runtime defines it
	ctrl.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := startControllers(ctx, kubeconfig); err != nil {
		log.Fatal(err)
	}
	if err := runInjector(ctx, kubeconfig); err != nil {
		log.Fatal(err)
	}
}

// startControllers starts every controller that the imports registered.
func startControllers(ctx context.Context, kubeconfig string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{Kubeconfig: kubeconfig})
	if err != nil {
		return err
	}
	common, err := factory.Build()
	if err != nil {
		return err
	}
	for name, construct := range controller.Known() {
		built, err := construct(factory)
		if err != nil {
			return err
		}
		go func() {
			if err := built.Run(workers, ctx); err != nil && ctx.Err() == nil {
				log.Fatalf("%s: %v", name, err)
			}
		}()
	}
	common.SharedInformerFactory.Start(ctx.Done())
	common.KubeSharedInformerFactory.Start(ctx.Done())
	return nil
}

// runInjector writes the caBundle of webhook configurations and APIServices until the context ends.
func runInjector(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config = util.RestConfigWithUserAgent(config, "cainjector") // it names the field manager
	types := runtime.NewScheme()
	kinds := runtime.NewSchemeBuilder(
		scheme.AddToScheme, certmanager.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme,
	)
	if err := kinds.AddToScheme(types); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  types,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// The injector watches the metadata of Secrets only. It reads their data without a cache.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return err
	}
	err = cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
			cainjector.APIServiceName:                     true,
		},
	})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}
