{{/* True if the release has the processes: part all or host. */}}
{{- define "fedhpa.runsProcesses" -}}
{{- if ne .Values.part "hub" }}true{{ end -}}
{{- end -}}

{{/* True if the release has the objects of the hub: part all or hub. */}}
{{- define "fedhpa.registers" -}}
{{- if ne .Values.part "host" }}true{{ end -}}
{{- end -}}

{{/* "true" if metrics.k8s.io is registered: apis.metrics, which is by default only true on a hub without pods. */}}
{{- define "fedhpa.servesMetrics" -}}
{{- eq (toString .Values.apis.metrics) "auto" | ternary (eq .Values.part "hub") .Values.apis.metrics -}}
{{- end -}}

{{/* The labels that select the pods of a component. Argument: the component. */}}
{{- define "fedhpa.selector" -}}
app.kubernetes.io/name: fedhpa
app.kubernetes.io/component: {{ . }}
{{- end -}}

{{/* Fails if values set a label of the chart itself: selectors would not match, or a key would stand twice. */}}
{{- define "fedhpa.checkLabels" -}}
{{- $given := dict
  "commonLabels" .Values.commonLabels
  "controller.podLabels" .Values.controller.podLabels
  "metricsAdapter.podLabels" .Values.metricsAdapter.podLabels
  "webhook.podLabels" .Values.webhook.podLabels
  "serviceMonitor.labels" .Values.serviceMonitor.labels
  "prometheusRule.labels" .Values.prometheusRule.labels
  "grafanaDashboard.labels" .Values.grafanaDashboard.labels -}}
{{- $own := list
  "app.kubernetes.io/name" "app.kubernetes.io/component" "app.kubernetes.io/part-of"
  "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" -}}
{{- range $value, $labels := $given -}}
{{- range $label := $own -}}
{{- if hasKey $labels $label -}}
{{- fail (printf "%s must not set the label %s: the chart sets it itself" $value $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The labels of an object. Arguments: the root context, the component, and further labels if it has any. */}}
{{- define "fedhpa.labels" -}}
{{- $root := index . 0 -}}
{{- include "fedhpa.checkLabels" $root -}}
{{- $further := dict -}}
{{- if gt (len .) 2 }}{{ $further = index . 2 }}{{ end -}}
{{ include "fedhpa.selector" (index . 1) }}
app.kubernetes.io/part-of: fedhpa
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with merge (dict) $further $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "fedhpa.image" -}}
{{- $image := .Values.image -}}
{{- if not $image.repository -}}
{{- fail "image.repository is not set: no image is published yet, docs/how-to/install.md builds one" -}}
{{- end -}}
{{- with .Values.global.imageRegistry | default $image.registry }}{{ . }}/{{ end }}{{ $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end -}}

{{/* The flags that every process has. Arguments: the root context, the component's values. */}}
{{- define "fedhpa.commonArguments" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
- --metrics-bind-address=:{{ $values.ports.metrics }}
- --health-probe-bind-address=:{{ $values.ports.health }}
- --logging-format={{ $root.Values.logging.format }}
- --v={{ $root.Values.logging.verbosity }}
{{- if eq $root.Values.part "host" }}
- --kubeconfig=/etc/fedhpa/hub/kubeconfig
{{- end }}
{{- end -}}

{{/* The host of the webhook or the adapter: that of the values, or the name of the Service. An IPv6 address keeps its brackets. */}}
{{- define "fedhpa.host" -}}
{{- $root := index . 0 -}}
{{- $given := index . 1 -}}
{{- regexFind "^(\\[.*\\]|[^:]*)" $given | default (printf "%s.%s.svc" (index . 2) $root.Release.Namespace) -}}
{{- end -}}

{{/* Its port. Argument: HOST, HOST:PORT or nothing. */}}
{{- define "fedhpa.port" -}}
{{- regexFind "[0-9]+$" (regexFind ":[0-9]+$" (regexReplaceAll "^\\[.*\\]" . "")) | default "443" -}}
{{- end -}}

{{/*
The caBundle of a registration, if the values have one. Otherwise the field is absent: whoever publishes the
bundle owns it, and an upgrade does not touch it.
*/}}
{{- define "fedhpa.caBundle" -}}
{{- if ne .Values.tls.source "self" -}}
{{- with .Values.tls.caBundle -}}
caBundle: {{ b64enc . }}
{{- else -}}
{{- if or (eq .Values.tls.source "files") (eq .Values.part "hub") -}}
{{- fail (printf "tls.caBundle is not set: with tls.source=%s nothing else tells the hub which CA to trust" .Values.tls.source) -}}
{{- end -}}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Annotations by which cert-manager writes the caBundle. Arguments: the root context, the Certificate. */}}
{{- define "fedhpa.injectCa" -}}
{{- $root := index . 0 -}}
{{- if and (eq $root.Values.tls.source "certManager") (eq $root.Values.part "all") (not $root.Values.tls.caBundle) -}}
annotations:
  cert-manager.io/inject-ca-from: {{ $root.Release.Namespace }}/{{ index . 1 }}
{{- end }}
{{- end -}}

{{/* Further names of the serving certificates, with commas: those of the values, and the webhook's host. */}}
{{- define "fedhpa.certificateHosts" -}}
{{- $hosts := .Values.tls.hosts -}}
{{- if and (eq .Values.part "host") .Values.hub.webhookHost -}}
{{- $hosts = append $hosts (include "fedhpa.host" (list . .Values.hub.webhookHost "") | trimAll "[]") -}}
{{- end -}}
{{- join "," ($hosts | uniq) -}}
{{- end -}}
