{{/*
Deployment, Service, ServiceAccount and PodDisruptionBudget of one process.
Arguments: root (the context), component (such as webhook), values (of the component), arguments (YAML list),
hubToken (whether the process talks to the API of its own cluster).
*/}}
{{- define "fedhpa.workload" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $name := printf "fedhpa-%s" .component -}}
{{- $labels := include "fedhpa.labels" (list $root .component) -}}
{{- $selector := include "fedhpa.selector" .component -}}
{{- $serves := hasKey $values.ports "https" -}}
{{- $external := eq $root.Values.part "host" -}}
{{- $plugins := and (has "clusterprofiles" $root.Values.members.from) (get $values "clusterProfileProviders") -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  replicas: {{ $values.replicas }}
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
  template:
    metadata:
      labels:
        {{- $selector | nindent 8 }}
        app.kubernetes.io/part-of: fedhpa
        {{- with merge (dict) $values.podLabels $root.Values.commonLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: {{ .hubToken }}
      # The variables of Services such as FEDHPA_WEBHOOK_PORT have the prefix of the processes' flags.
      enableServiceLinks: false
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- if $values.hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      {{- with $root.Values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      # Running requests get a minute (--shutdown-grace-period), after the pause of preStop.
      terminationGracePeriodSeconds: 75
      {{- with get $values "initContainers" }}
      initContainers:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
      - name: {{ .component }}
        image: {{ include "fedhpa.image" $root }}
        imagePullPolicy: {{ $root.Values.image.pullPolicy }}
        command:
        - {{ $name }}
        args:
        {{- .arguments | nindent 8 }}
        {{- range $values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        env:
        # The zone of schedules that name none.
        - name: TZ
          value: UTC
        {{- if $plugins }}
        # Exec plugins keep their caches there.
        - name: HOME
          value: /home/fedhpa
        {{- end }}
        {{- with $values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        ports:
        {{- range $port, $number := $values.ports }}
        - name: {{ $port }}
          containerPort: {{ $number }}
          protocol: TCP
        {{- end }}
        livenessProbe:
          httpGet:
            path: /livez
            port: health
          {{- toYaml $root.Values.livenessProbe | nindent 10 }}
        readinessProbe:
          httpGet:
            path: /readyz
            port: health
          {{- toYaml $root.Values.readinessProbe | nindent 10 }}
        lifecycle:
          preStop:
            # The API server must stop sending requests before the process stops accepting them.
            exec:
              command: ["sleep", "5"]
        {{- with $root.Values.securityContext }}
        securityContext:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        {{- with $values.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        volumeMounts:
        - name: tmp
          mountPath: /tmp
        {{- if $plugins }}
        - name: home
          mountPath: /home/fedhpa
        - name: providers
          mountPath: /etc/fedhpa/providers
          readOnly: true
        {{- end }}
        {{- if $serves }}
        - name: tls
          mountPath: /etc/fedhpa/tls
          readOnly: true
        {{- end }}
        {{- if $external }}
        - name: hub
          mountPath: /etc/fedhpa/hub
          readOnly: true
        {{- end }}
        {{- with $values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
      - name: tmp
        emptyDir:
          sizeLimit: 16Mi
      {{- if $plugins }}
      - name: home
        emptyDir:
          sizeLimit: 64Mi
      - name: providers
        configMap:
          name: {{ $name }}-providers
      {{- end }}
      {{- if $serves }}
      - name: tls
        secret:
          secretName: {{ $name }}-tls
          optional: true
      {{- end }}
      {{- if $external }}
      - name: hub
        secret:
          secretName: {{ $values.hubKubeconfigSecret | default $root.Values.hub.kubeconfigSecret }}
      {{- end }}
      {{- with $values.volumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
      {{- if $values.topologySpreadConstraints }}
      {{- toYaml $values.topologySpreadConstraints | nindent 6 }}
      {{- else }}
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels:
            {{- $selector | nindent 12 }}
      {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  selector:
    {{- $selector | nindent 4 }}
  ports:
  {{- if $serves }}
  - name: https
    port: 443
    targetPort: https
    protocol: TCP
  {{- end }}
  - name: metrics
    port: {{ $values.ports.metrics }}
    targetPort: metrics
    protocol: TCP
{{- if $root.Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  {{- with $root.Values.podDisruptionBudget.minAvailable }}
  minAvailable: {{ . }}
  {{- else }}
  maxUnavailable: {{ $root.Values.podDisruptionBudget.maxUnavailable }}
  {{- end }}
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
{{- end }}
{{- if $root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- $selector | nindent 6 }}
  policyTypes:
  - Ingress
  - Egress
  ingress:
  # The API server, the kubelet and Prometheus have no labels that every cluster shares.
  - ports:
    {{- range $port, $number := $values.ports }}
    - protocol: TCP
      port: {{ $number }}
    {{- end }}
  egress:
  - ports:
    {{- $stores := eq .component "metrics-adapter" | ternary $root.Values.networkPolicy.storePorts list }}
    {{- range concat $root.Values.networkPolicy.apiPorts $stores | uniq }}
    - protocol: TCP
      port: {{ . }}
    {{- end }}
  - ports:
    - protocol: UDP
      port: 53
    - protocol: TCP
      port: 53
{{- end }}
{{- if $root.Values.serviceMonitor.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "fedhpa.labels" (list $root .component $root.Values.serviceMonitor.labels) | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
  endpoints:
  - port: metrics
    interval: {{ $root.Values.serviceMonitor.interval }}
    # Many series have a label namespace, that of the object. Prometheus would rename it.
    honorLabels: true
    {{- with $root.Values.serviceMonitor.relabelings }}
    relabelings:
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with $root.Values.serviceMonitor.metricRelabelings }}
    metricRelabelings:
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
{{- end -}}
