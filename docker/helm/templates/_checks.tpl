{{- /* What a schema cannot compare. Each sentence names the value, the limit, and what to do. "helm lint" skips these. */ -}}
{{- define "redlockd.checks" -}}
{{- include "redlockd.checkSettings" . }}
{{- include "redlockd.checkMasters" . }}
{{- include "redlockd.checkService" . }}
{{- include "redlockd.checkFiles" . }}
{{- include "redlockd.checkResources" (list "resources" .Values.resources) }}
{{- with dig "limits" "memory" "" .Values.resources }}
{{- if lt (include "redlockd.number" (list "resources.limits.memory" .) | float64) 33554432.0 }}
{{- fail (printf "resources.limits.memory: %v is too little: redlockd takes 20 MB before the first client comes: set at least 32Mi; 10 000 clients need 1Gi" .) }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* A quantity of Kubernetes as a number, for a list of its name in the values and the quantity: 1.5Gi is 1610612736. */ -}}
{{- define "redlockd.number" -}}
{{- $name := index . 0 }}{{ $quantity := index . 1 }}
{{- $units := dict "" 1.0 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 }}
{{- if kindIs "string" $quantity }}
{{- $digits := regexFind "^[0-9]+(\\.[0-9]+)?([eE][0-9]+)?" $quantity }}
{{- $unit := trimPrefix $digits $quantity }}
{{- if not (and $digits (hasKey $units $unit)) }}
{{- fail (printf "%s: %q is no quantity: write it as 384Mi, 1.5Gi or 250m" $name $quantity) }}
{{- end }}
{{- mulf (float64 $digits) (get $units $unit) }}
{{- else }}
{{- float64 $quantity }}
{{- end }}
{{- end -}}

{{- /* For a list of a name in the values and its requests and limits. Kubernetes refuses the pods otherwise, after the install. */ -}}
{{- define "redlockd.checkResources" -}}
{{- $name := index . 0 }}{{ $resources := index . 1 }}
{{- range $what := list "cpu" "memory" }}
{{- $request := dig "requests" $what "" $resources }}{{ $limit := dig "limits" $what "" $resources }}
{{- if and $request $limit }}
{{- if gt (include "redlockd.number" (list (printf "%s.requests.%s" $name $what) $request) | float64) (include "redlockd.number" (list (printf "%s.limits.%s" $name $what) $limit) | float64) }}
{{- fail (printf "%s.requests.%s: %v is more than %s.limits.%s: %v. Kubernetes takes no such pod: lower the request, or raise the limit" $name $what $request $name $what $limit) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "redlockd.checkSettings" -}}
{{- range $name, $instead := dict "server.listen" "it is :6380" "http.listen" "it is :9121" "locks.max_ttl" "set maxTTLSeconds" "server.tls_cert" "set tls.existingSecret" "server.tls_key" "set tls.existingSecret" "server.tls_client_ca" "set tls.clientCA" }}
{{- $group := splitList "." $name | first }}
{{- if hasKey (get $.Values.settings $group | default dict) (splitList "." $name | last) }}
{{- fail (printf "settings.%s: the chart sets this, so take it out: %s" $name $instead) }}
{{- end }}
{{- end }}
{{- if and (not (dig "auth" "users" list .Values.settings)) (dig "server" "protected_mode" true .Values.settings) }}
{{- fail "settings.auth.users: there is none, and redlockd does not start without users, because every pod can reach it: name one, or set settings.server.protected_mode: false to let everybody in" }}
{{- end }}
{{- if and .Values.tls.clientCA (not .Values.tls.existingSecret) }}
{{- fail "tls.clientCA needs tls.existingSecret: the Secret with tls.crt, tls.key and ca.crt" }}
{{- end }}
{{- end -}}

{{- define "redlockd.checkMasters" -}}
{{- $name := include "redlockd.name" . }}{{ $masters := .Values.masters }}
{{- $settings := get .Values.settings "master" | default dict }}
{{- if and (not $masters.enabled) (not (mod (len $masters.addresses) 2)) }}
{{- fail (printf "masters.addresses: %d masters tolerate no more failures than %d: name an odd number (5 is usual)" (len $masters.addresses) (sub (len $masters.addresses) 1)) }}
{{- end }}
{{- if include "redlockd.mastersSecret" . }}
{{- range list "password" "password_file" }}
{{- if hasKey $settings . }}
{{- fail (printf "settings.master.%s: the chart sets the password of the masters, so take it out: the Secret is %s (masters.existingSecret)" . (include "redlockd.mastersSecret" $)) }}
{{- end }}
{{- end }}
{{- end }}
{{- if $masters.enabled }}
{{- if get $settings "tls" }}
{{- fail "settings.master.tls: the masters that the chart starts speak no TLS: take it out, or run the masters elsewhere (masters.enabled: false, masters.addresses)" }}
{{- end }}
{{- if ne (get $settings "username" | default "default") "default" }}
{{- fail (printf "settings.master.username: the masters that the chart starts have no user %q, only the default one: take it out, or run the masters elsewhere (masters.enabled: false, masters.addresses)" $settings.username) }}
{{- end }}
{{- include "redlockd.checkResources" (list "masters.resources" $masters.resources) }}
{{- with dig "limits" "memory" "" $masters.resources }}
{{- $from := ternary "masters.maxmemory" "redis.conf" (not (empty $masters.maxmemory)) }}
{{- $maxmemory := $masters.maxmemory | default (regexFind "(?m)^maxmemory \\S+" ($.Files.Get "redis.conf") | trimPrefix "maxmemory ") }}
{{- $bytes := include "redlockd.number" (list $from ($maxmemory | replace "mb" "Mi" | replace "gb" "Gi")) | float64 }}
{{- if lt (include "redlockd.number" (list "masters.resources.limits.memory" .) | float64) (mulf $bytes 1.5) }}
{{- fail (printf "masters.resources.limits.memory: %v is less than 1.5 times maxmemory, which is %s (%s). The kernel would end a master that is not full, and it would forget its locks: set at least %dMi, or lower masters.maxmemory" . $maxmemory $from (int64 (divf (mulf $bytes 1.5) 1048576))) }}
{{- end }}
{{- end }}
{{- if $masters.auth.enabled }}
{{- $set := lookup "apps/v1" "StatefulSet" .Release.Namespace (printf "%s-master" $name) }}
{{- $deployment := lookup "apps/v1" "Deployment" .Release.Namespace $name }}
{{- if and $set $deployment (not (contains "REDISCLI_AUTH" (dig "spec" "template" dict $set | toJson))) (not (contains "/run/secrets/redlockd-masters" (dig "spec" "template" dict $deployment | toJson))) }}
{{- fail (printf "masters.auth.enabled: the masters of this release run without a password, and its redlockds have none. They would lose each master that starts again. Take two steps: make the Secret %s, and upgrade with masters.existingSecret=%s and masters.auth.enabled=false; when the rollout is over, upgrade with masters.auth.enabled=true. Or keep masters.auth.enabled=false" (include "redlockd.mastersSecret" .) (include "redlockd.mastersSecret" .)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "redlockd.checkService" -}}
{{- $service := .Values.service }}
{{- if and (ne $service.type "ClusterIP") (not .Values.tls.existingSecret) (not $service.withoutTLS) }}
{{- fail (printf "service.type: a %s without TLS shows passwords and tokens to all who can listen on the way: set tls.existingSecret, or service.withoutTLS: true if the network is yours alone" $service.type) }}
{{- end }}
{{- if and (eq $service.type "LoadBalancer") (not $service.loadBalancerSourceRanges) }}
{{- fail "service.loadBalancerSourceRanges: none is named, so a LoadBalancer lets everybody connect: name who may, as [\"10.0.0.0/8\"], or say that everybody may: [\"0.0.0.0/0\", \"::/0\"]" }}
{{- end }}
{{- end -}}

{{- /* Every file that a setting names must be in a volume, because nothing else is in the image. */ -}}
{{- define "redlockd.checkFiles" -}}
{{- $volumes := list "config" "secret" "masters" "tls" }}
{{- range .Values.extraVolumes }}
{{- if has .name $volumes }}
{{- fail (printf "extraVolumes: there are two volumes %q: the chart or the list has it, so choose another name" .name) }}
{{- end }}
{{- $volumes = append $volumes .name }}
{{- end }}
{{- $mounts := list "/etc/redlockd" "/run/secrets/redlockd" }}
{{- if include "redlockd.mastersSecret" . }}{{ $mounts = append $mounts "/run/secrets/redlockd-masters" }}{{ end }}
{{- if .Values.tls.existingSecret }}{{ $mounts = append $mounts "/run/secrets/redlockd-tls" }}{{ end }}
{{- $writable := list }}
{{- range .Values.extraVolumeMounts }}
{{- if not (has .name $volumes) }}
{{- fail (printf "extraVolumeMounts: there is no volume %q: add it to extraVolumes" .name) }}
{{- end }}
{{- $path := trimSuffix "/" .mountPath }}
{{- if has $path $mounts }}
{{- fail (printf "extraVolumeMounts: there are two mounts at %s: the chart or the list has it, so choose another mountPath" .mountPath) }}
{{- end }}
{{- $mounts = append $mounts $path }}
{{- if not (get . "readOnly") }}{{ $writable = append $writable $path }}{{ end }}
{{- end }}
{{- $files := dict }}
{{- range $name := list "http.tls_cert" "http.tls_key" "client.password_file" "client.tls_ca" "client.tls_cert" "client.tls_key" "master.password_file" "master.tls_ca" "master.tls_cert" "master.tls_key" }}
{{- with get (get $.Values.settings (splitList "." $name | first) | default dict) (splitList "." $name | last) }}{{ $_ := set $files $name . }}{{ end }}
{{- end }}
{{- range $i, $user := dig "auth" "users" list .Values.settings }}
{{- with get $user "password_file" }}{{ $_ := set $files (printf "auth.users[%d].password_file" $i) . }}{{ end }}
{{- end }}
{{- range $name, $file := $files }}
{{- if not (include "redlockd.isIn" (list $file $mounts)) }}
{{- fail (printf "settings.%s: %s is in no volume of the pod: add the one that has it to extraVolumes and extraVolumeMounts; there are %s" $name $file (join ", " $mounts)) }}
{{- end }}
{{- end }}
{{- with dig "audit" "file" "" .Values.settings }}
{{- if not (or (eq . "stdout") (include "redlockd.isIn" (list . $writable))) }}
{{- fail (printf "settings.audit.file: %s is in no volume that can be written, and the root of the container is read-only: add one to extraVolumes and extraVolumeMounts, or write to stdout" .) }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* "yes" if the file of the list is in one of its folders, or is mounted itself. */ -}}
{{- define "redlockd.isIn" -}}
{{- $file := index . 0 }}
{{- range index . 1 }}
{{- if or (eq . $file) (hasPrefix (printf "%s/" .) $file) }}yes{{ end }}
{{- end }}
{{- end -}}
