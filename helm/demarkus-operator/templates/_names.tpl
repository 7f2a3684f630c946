{{/* The name of everything that the chart makes. One operator a namespace. */}}
{{- define "operator.name" -}}
demarkus-operator
{{- end }}

{{/* Labels by which the pods are selected. Worlds admit the operator by the first. */}}
{{- define "operator.selector" -}}
app.kubernetes.io/name: demarkus-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The image: a digest wins over a tag. */}}
{{- define "operator.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* Binds a Role or ClusterRole to the ServiceAccount: (dict "root" $ "role" "Role" "namespace" "..." "name" "...") */}}
{{- define "operator.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .role }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "operator.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .role }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "operator.name" .root }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
