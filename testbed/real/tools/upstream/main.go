// Serves the metrics APIs of one world by the code of upstream: pods and nodes by metrics-server, values of custom and
// external metrics by custom-metrics-apiserver. Both publish their servers as packages only with a cluster behind them,
// so this program puts a JSON file in its place. Every caller may do everything, and nothing is encrypted.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	openapi "k8s.io/kube-openapi/pkg/common"
	custom "k8s.io/metrics/pkg/apis/custom_metrics"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	external "k8s.io/metrics/pkg/apis/external_metrics"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"k8s.io/metrics/pkg/apis/metrics"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	customschema "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/custommetrics"
	externalschema "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/externalmetrics"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
	"sigs.k8s.io/metrics-server/pkg/api"
	usageschema "sigs.k8s.io/metrics-server/pkg/api/generated/openapi"
)

// version is set by the linker.
var version = "unknown"

// world is what the APIs answer with.
type world struct {
	Pods     []metricsv1beta1.PodMetrics
	Nodes    []metricsv1beta1.NodeMetrics
	Custom   []customValue
	External []externalv1beta1.ExternalMetricValue
}

// customValue is a value of an object of a resource such as "pods" or "deployments.apps", with the object's labels.
type customValue struct {
	Resource string
	Labels   labels.Set
	Value    customv1beta2.MetricValue
}

func main() {
	showsVersion := flag.Bool("version", false, "print the version of custom-metrics-apiserver")
	file := flag.String("world", "", "JSON file with pods, nodes, custom and external metrics")
	flag.Parse()
	if *showsVersion {
		fmt.Println("upstream-adapters " + version)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *file); err != nil {
		log.Fatal(err)
	}
}

// run serves on a free port of 127.0.0.1 until the context ends. It prints the port; /readyz tells when it is ready.
func run(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var known world
	if err := json.Unmarshal(text, &known); err != nil {
		return err
	}
	server, err := newServer(&known)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	prepared := server.PrepareRun()
	go func() { log.Fatal(http.Serve(listener, server.Handler)) }()
	// It never returns, because it waits for a listener of its own.
	go func() { log.Fatal(prepared.RunWithContext(ctx)) }()
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	<-ctx.Done()
	return nil
}

// newServer returns one server with all APIs. Only the handlers of the generic API server are around them.
func newServer(known *world) (*genericapiserver.GenericAPIServer, error) {
	config := genericapiserver.NewConfig(apiserver.Codecs)
	config.ExternalAddress = "127.0.0.1:443"
	config.LoopbackClientConfig = &rest.Config{}
	everybody := &user.DefaultInfo{Name: "everybody"}
	config.Authentication.Authenticator = authenticator.RequestFunc(
		func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: everybody}, true, nil
		})
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	namer := openapinamer.NewDefinitionNamer(apiserver.Scheme, api.Scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIConfig.Info.Title = "upstream"
	config.OpenAPIV3Config.Info.Title = "upstream"
	adapter := apiserver.Config{GenericConfig: config}
	values, err := adapter.Complete(nil).New("upstream", known, known)
	if err != nil {
		return nil, err
	}
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, pod := range known.Pods {
		if err := pods.Add(&metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta}); err != nil {
			return nil, err
		}
	}
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, node := range known.Nodes {
		if err := nodes.Add(&corev1.Node{ObjectMeta: node.ObjectMeta}); err != nil {
			return nil, err
		}
	}
	podLister := cache.NewGenericLister(pods, corev1.Resource("pods"))
	err = api.Install(known, podLister, listers.NewNodeLister(nodes), values.GenericAPIServer, nil)
	return values.GenericAPIServer, err
}

func definitions(reference openapi.ReferenceCallback) map[string]openapi.OpenAPIDefinition {
	all := usageschema.GetOpenAPIDefinitions(reference)
	for _, more := range []openapi.GetOpenAPIDefinitions{
		customschema.GetOpenAPIDefinitions, externalschema.GetOpenAPIDefinitions,
	} {
		for name, definition := range more(reference) {
			all[name] = definition
		}
	}
	return all
}

func (w *world) GetPodMetrics(pods ...*metav1.PartialObjectMetadata) ([]metrics.PodMetrics, error) {
	found := []metrics.PodMetrics{}
	for _, pod := range pods {
		for _, one := range w.Pods {
			if one.Name == pod.Name && one.Namespace == pod.Namespace {
				var converted metrics.PodMetrics
				if err := api.Scheme.Convert(&one, &converted, nil); err != nil {
					return nil, err
				}
				found = append(found, converted)
			}
		}
	}
	return found, nil
}

func (w *world) GetNodeMetrics(nodes ...*corev1.Node) ([]metrics.NodeMetrics, error) {
	found := []metrics.NodeMetrics{}
	for _, node := range nodes {
		for _, one := range w.Nodes {
			if one.Name == node.Name {
				var converted metrics.NodeMetrics
				if err := api.Scheme.Convert(&one, &converted, nil); err != nil {
					return nil, err
				}
				found = append(found, converted)
			}
		}
	}
	return found, nil
}

// matching returns the values of one metric; an object of "" means all objects. The second value is false if there is no
// such metric of that resource.
func (w *world) matching(
	namespace, object string, info provider.CustomMetricInfo, objects, metric labels.Selector,
) ([]custom.MetricValue, bool, error) {
	found, known := []custom.MetricValue{}, false
	for _, one := range w.Custom {
		if schema.ParseGroupResource(one.Resource) != info.GroupResource || one.Value.Metric.Name != info.Metric {
			continue
		}
		known = true
		series := labels.Set{}
		if one.Value.Metric.Selector != nil {
			series = one.Value.Metric.Selector.MatchLabels
		}
		described := one.Value.DescribedObject
		if described.Namespace != namespace || (object != "" && described.Name != object) {
			continue
		}
		if !objects.Matches(one.Labels) || !metric.Matches(series) {
			continue
		}
		var converted custom.MetricValue
		if err := apiserver.Scheme.Convert(&one.Value, &converted, nil); err != nil {
			return nil, known, err
		}
		found = append(found, converted)
	}
	return found, known, nil
}

func (w *world) GetMetricByName(
	_ context.Context, name types.NamespacedName, info provider.CustomMetricInfo, metric labels.Selector,
) (*custom.MetricValue, error) {
	found, _, err := w.matching(name.Namespace, name.Name, info, labels.Everything(), metric)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, provider.NewMetricNotFoundForError(info.GroupResource, info.Metric, name.Name)
	}
	return &found[0], nil
}

func (w *world) GetMetricBySelector(
	_ context.Context, namespace string, objects labels.Selector, info provider.CustomMetricInfo, metric labels.Selector,
) (*custom.MetricValueList, error) {
	found, known, err := w.matching(namespace, "", info, objects, metric)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, provider.NewMetricNotFoundError(info.GroupResource, info.Metric)
	}
	return &custom.MetricValueList{Items: found}, nil
}

func (w *world) ListAllMetrics() []provider.CustomMetricInfo {
	found := sets.New[provider.CustomMetricInfo]()
	for _, one := range w.Custom {
		found.Insert(provider.CustomMetricInfo{
			GroupResource: schema.ParseGroupResource(one.Resource),
			Namespaced:    one.Value.DescribedObject.Namespace != "",
			Metric:        one.Value.Metric.Name,
		})
	}
	return found.UnsortedList()
}

func (w *world) GetExternalMetric(
	_ context.Context, _ string, metric labels.Selector, info provider.ExternalMetricInfo,
) (*external.ExternalMetricValueList, error) {
	found := &external.ExternalMetricValueList{Items: []external.ExternalMetricValue{}}
	for _, one := range w.External {
		if one.MetricName != info.Metric || !metric.Matches(labels.Set(one.MetricLabels)) {
			continue
		}
		var converted external.ExternalMetricValue
		if err := apiserver.Scheme.Convert(&one, &converted, nil); err != nil {
			return nil, err
		}
		found.Items = append(found.Items, converted)
	}
	return found, nil
}

func (w *world) ListAllExternalMetrics() []provider.ExternalMetricInfo {
	found := sets.New[provider.ExternalMetricInfo]()
	for _, one := range w.External {
		found.Insert(provider.ExternalMetricInfo{Metric: one.MetricName})
	}
	return found.UnsortedList()
}
