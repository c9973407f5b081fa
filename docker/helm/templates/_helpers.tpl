{{- /* The name of all objects: the release's. */ -}}
{{- define "redlockd.name" -}}
{{- if contains "redlockd" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ .Release.Name | trunc 31 | trimSuffix "-" }}-redlockd{{ end }}
{{- end -}}

{{- /* The name of an image, for a list of where the values have it, and what they have. */ -}}
{{- define "redlockd.image" -}}
{{- $name := index . 0 }}{{ $image := index . 1 }}
{{- if not (kindIs "map" $image) }}
{{- fail (printf "%s: name its parts: %s.repository=registry.example.org/redlockd and %s.tag=1.2.0, in place of %s=%v" $name $name $name $name $image) }}
{{- else if not (and $image.repository (or $image.tag $image.digest)) }}
{{- fail (printf "%s.repository and %s.tag: there is no image without both: name the one that you have built, as --set %s.repository=registry.example.org/redlockd --set %s.tag=1.2.0 (or %s.digest)" $name $name $name $name $name) }}
{{- else }}
{{- $image.repository }}{{ with $image.tag }}:{{ . }}{{ end }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end }}
{{- end -}}

{{- /* The Secret with the password of the masters; empty: they have none. */ -}}
{{- define "redlockd.mastersSecret" -}}
{{- if .Values.masters.existingSecret }}{{ .Values.masters.existingSecret }}
{{- else if and .Values.masters.enabled .Values.masters.auth.enabled }}{{ include "redlockd.name" . }}-masters
{{- end }}
{{- end -}}

{{- /* The labels that Kubernetes recommends, for a list of the chart, the component and its image. Selectors go by the label app alone, because
they can never be changed: the version is one of these labels. */ -}}
{{- define "redlockd.labels" -}}
{{- $root := index . 0 }}
{{- $labels := dict "app.kubernetes.io/name" "redlockd" "app.kubernetes.io/instance" $root.Release.Name "app.kubernetes.io/component" (index . 1) "app.kubernetes.io/part-of" "redlockd" "app.kubernetes.io/managed-by" $root.Release.Service }}
{{- with regexFind ":[A-Za-z0-9_][A-Za-z0-9_.-]*$" (index . 2 | splitList "@" | first | splitList "/" | last) }}{{ $_ := set $labels "app.kubernetes.io/version" (trimPrefix ":" . | trunc 63 | trimAll "_.-") }}{{ end }}
{{- $comma := "" }}{{ range $key, $value := $labels }}{{ $comma }}{{ $key }}: {{ toJson $value }}{{ $comma = ", " }}{{ end }}
{{- end -}}

{{- define "redlockd.serverLabels" -}}
{{ include "redlockd.labels" (list . "server" (include "redlockd.image" (list "image" .Values.image))) }}
{{- end -}}

{{- define "redlockd.masterLabels" -}}
{{ include "redlockd.labels" (list . "master" (include "redlockd.image" (list "masters.image" .Values.masters.image))) }}
{{- end -}}

{{- /* The labels of what Prometheus and Grafana find by them, for a list of the chart and the labels of the values, which win. */ -}}
{{- define "redlockd.monitoringLabels" -}}
{{- $own := printf "{%s}" (include "redlockd.serverLabels" (index . 0)) | fromYaml }}
{{- merge (deepCopy (index . 1)) $own | toYaml }}
{{- end -}}

{{- /* A value as TOML writes it. JSON is TOML but for tables, and has no 10000.0 for 10000. */ -}}
{{- define "redlockd.toml" -}}
{{- if kindIs "map" . -}}
{ {{- $comma := "" }}{{ range $key, $value := . }}{{ $comma }}{{ $key }} = {{ include "redlockd.toml" $value }}{{ $comma = ", " }}{{ end -}} }
{{- else if kindIs "slice" . -}}
[{{- $comma := "" }}{{ range . }}{{ $comma }}{{ include "redlockd.toml" . }}{{ $comma = ", " }}{{ end -}}]
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end -}}

{{- /* The settings, with those that the chart sets. */ -}}
{{- define "redlockd.config" -}}
{{- $tls := .Values.tls }}
{{- $own := dict "server" (dict "listen" ":6380") "http" (dict "listen" ":9121") "locks" (dict "max_ttl" (printf "%ds" (int64 .Values.maxTTLSeconds))) }}
{{- if $tls.existingSecret }}
{{- $_ := set $own.server "tls_cert" "/run/secrets/redlockd-tls/tls.crt" }}
{{- $_ := set $own.server "tls_key" "/run/secrets/redlockd-tls/tls.key" }}
{{- if $tls.clientCA }}{{ $_ := set $own.server "tls_client_ca" "/run/secrets/redlockd-tls/ca.crt" }}{{ end }}
{{- end }}
{{- if include "redlockd.mastersSecret" . }}
{{- $_ := set $own "master" (dict "password_file" "/run/secrets/redlockd-masters/password") }}
{{- end }}
{{- $addresses := .Values.masters.addresses }}
{{- if .Values.masters.enabled }}
{{- range $i := until (int .Values.masters.replicas) }}
{{- $addresses = append $addresses (printf "%s-master-%d.%s-master:6379" (include "redlockd.name" $) $i (include "redlockd.name" $)) }}
{{- end }}
{{- end -}}
masters = [
{{- range $addresses }}
  {{ toJson . }},
{{- end }}
]
{{- range $group, $settings := mergeOverwrite (deepCopy .Values.settings) $own }}
{{- $list := kindIs "slice" $settings }}
{{- range ternary $settings (list $settings) $list }}

{{ ternary (printf "[[%s]]" $group) (printf "[%s]" $group) $list }}
{{- range $key, $value := . }}
{{ $key }} = {{ include "redlockd.toml" $value }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
