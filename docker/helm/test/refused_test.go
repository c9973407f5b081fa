package test

// Goal: values that cannot run are refused before anything is installed, with the value, the limit, and what to do.

import (
	"strings"
	"testing"
)

func TestBadValues(t *testing.T) {
	const lb = "service: {type: LoadBalancer, loadBalancerSourceRanges: ['10.0.0.0/8']}"
	for _, c := range []struct{ values, want string }{
		{`replica: 3`, "replica"},
		{`replicas: two`, "/replicas"},
		{`goMemLimit: 2GiB`, "goMemLimit"}, // of an earlier chart: redlockd heeds the limit by itself

		{`image: {}`, "image.repository and image.tag: there is no image without both: name the one that you have built, as --set image.repository=registry.example.org/redlockd --set image.tag=1.2.0"},
		{`image: {repository: redlockd}`, "image.repository and image.tag: there is no image without both"},
		{`image: {tag: "1.2.0"}`, "image.repository and image.tag: there is no image without both"},
		{`image: redlockd:1.2.0`, "image: name its parts: image.repository=registry.example.org/redlockd and image.tag=1.2.0, in place of image=redlockd:1.2.0"},
		{`image: {repository: "example.org/redlockd:1.2.0", tag: "1.2.0"}`, "/image/repository"},
		{`image: {repository: "example.org/redlockd@sha256:00", tag: "1.2.0"}`, "/image/repository"},
		{`image: {repository: redlockd, tag: 1.2}`, "/image/tag"}, // 1.20 would be 1.2
		{`image: {repository: redlockd, digest: "sha256:0"}`, "/image/digest"},
		{`masters: {image: "redis:7.4"}`, "masters.image: name its parts"},
		{`masters: {image: {repository: ""}}`, "masters.image.repository and masters.image.tag: there is no image without both"},

		{`maxTTLSeconds: 1m`, "/maxTTLSeconds"},
		{`maxTTLSeconds: 0`, "/maxTTLSeconds"},
		{`existingSecret: "my secret"`, "/existingSecret"},

		{`masters: {replicas: 4}`, "/masters/replicas"},
		{`masters: {enabled: false}`, "/masters/addresses"},
		{`masters: {enabled: false, addresses: ["a:1", "b:1"]}`, "masters.addresses: 2 masters tolerate no more failures than 1: name an odd number"},
		{`masters: {addresses: ["a:1"]}`, "/masters/addresses"},
		{`masters: {enabled: false, addresses: ["redis://user:password@a:1"]}`, "/masters/addresses/0"},
		{`masters: {existingSecret: "my secret"}`, "/masters/existingSecret"},
		{`settings: {master: {password: p}}`, "settings.master.password: the chart sets the password of the masters, so take it out: the Secret is redlockd-masters"},
		{`{masters: {existingSecret: s}, settings: {master: {password_file: p}}}`, "settings.master.password_file: the chart sets the password of the masters, so take it out: the Secret is s"},
		{`settings: {master: {tls: true}}`, "settings.master.tls: the masters that the chart starts speak no TLS"},
		{`settings: {master: {username: redlockd}}`, `settings.master.username: the masters that the chart starts have no user "redlockd"`},
		{`masters: {resources: {requests: {memory: 320Mi}, limits: {memory: 320Mi}}}`,
			"masters.resources.limits.memory: 320Mi is less than 1.5 times maxmemory, which is 256mb (redis.conf). The kernel would end a master that is not full, and it would forget its locks: set at least 384Mi, or lower masters.maxmemory"},
		{`masters: {maxmemory: 1gb}`, "masters.resources.limits.memory: 384Mi is less than 1.5 times maxmemory, which is 1gb (masters.maxmemory). The kernel would end a master that is not full, and it would forget its locks: set at least 1536Mi"},
		{`masters: {maxmemory: 1gb, resources: {limits: {memory: 1610612735}}}`, "is less than 1.5 times maxmemory"},
		{`masters: {maxmemory: 256}`, "/masters/maxmemory"},
		{`masters: {maxmemory: 256m}`, "/masters/maxmemory"},
		{`masters: {resources: {limits: {memory: 512MB}}}`, `masters.resources.limits.memory: "512MB" is no quantity: write it as 384Mi, 1.5Gi or 250m`},
		{`masters: {resources: {requests: {memory: 1Gi}}}`, "masters.resources.requests.memory: 1Gi is more than masters.resources.limits.memory: 384Mi"},

		{`settings: {lock: {max_wait: 1m}}`, "lock"},
		{`settings: {server: {bogus: 1}}`, "bogus"},
		{`settings: {server: {max_clients: "10000"}}`, "/settings/server/max_clients"},
		{`settings: {server: {drain_delay: 5}}`, "/settings/server/drain_delay"},
		{`settings: {log: {level: verbose}}`, "/settings/log/level"},
		{`settings: {policy: [{prefix: "a:*", max_tll: 1s}]}`, "max_tll"},
		{`settings: {auth: {users: [{name: a, pasword: b}]}}`, "pasword"},
		{`settings: {auth: {users: []}}`, "/settings/auth/users"},
		{`settings: {auth: {users: null}}`, "settings.auth.users: there is none, and redlockd does not start without users, because every pod can reach it: name one, or set settings.server.protected_mode: false"},
		{`settings: {masters: [a]}`, "masters"},
		{`settings: {server: {listen: ":1"}}`, "settings.server.listen: the chart sets this"},
		{`settings: {http: {listen: ":1"}}`, "settings.http.listen: the chart sets this"},
		{`settings: {locks: {max_ttl: 2m}}`, "settings.locks.max_ttl: the chart sets this, so take it out: set maxTTLSeconds"},
		{`settings: {server: {tls_cert: /a}}`, "settings.server.tls_cert: the chart sets this, so take it out: set tls.existingSecret"},
		{`settings: {server: 5}`, "/settings/server"},

		{`settings: {audit: {file: /var/log/audit}}`, "settings.audit.file: /var/log/audit is in no volume that can be written, and the root of the container is read-only: add one to extraVolumes and extraVolumeMounts, or write to stdout"},
		{`settings: {audit: {file: /run/secrets/redlockd/audit}}`, "settings.audit.file: /run/secrets/redlockd/audit is in no volume that can be written"},
		{`{extraVolumes: [{name: a, emptyDir: {}}], extraVolumeMounts: [{name: a, mountPath: /a, readOnly: true}], settings: {audit: {file: /a/b}}}`, "settings.audit.file: /a/b is in no volume that can be written"},
		{`{extraVolumes: [{name: a, emptyDir: {}}], extraVolumeMounts: [{name: a, mountPath: /a}], settings: {audit: {file: /ab}}}`, "settings.audit.file: /ab is in no volume that can be written"},
		{`settings: {http: {tls_cert: /a, tls_key: /b}}`, "settings.http.tls_cert: /a is in no volume of the pod: add the one that has it to extraVolumes and extraVolumeMounts; there are /etc/redlockd, /run/secrets/redlockd, /run/secrets/redlockd-masters"},
		{`{masters: {enabled: false, addresses: ["a:1"]}, settings: {master: {tls_ca: /ca}}}`, "settings.master.tls_ca: /ca is in no volume of the pod"},
		{`settings: {auth: {users: [{name: a, password: b}, {name: c, password_file: d}]}}`, "settings.auth.users[1].password_file: d is in no volume of the pod"},
		{`extraVolumes: [{emptyDir: {}}]`, "/extraVolumes/0"},
		{`extraVolumes: [{name: config, emptyDir: {}}]`, `extraVolumes: there are two volumes "config"`},
		{`extraVolumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]`, `extraVolumes: there are two volumes "a"`},
		{`extraVolumeMounts: [{name: a, mountPath: /a}]`, `extraVolumeMounts: there is no volume "a": add it to extraVolumes`},
		{`extraVolumeMounts: [{name: config, mountPath: a}]`, "/extraVolumeMounts/0/mountPath"},
		{`extraVolumeMounts: [{name: secret, mountPath: /etc/redlockd/}]`, "extraVolumeMounts: there are two mounts at /etc/redlockd/"},

		{`service: {type: ExternalName}`, "/service/type"},
		{`service: {annotations: {a: true}}`, "/service/annotations/a"},
		{`service: {loadBalancerSourceRanges: ["10.0.0.0/8"]}`, "/service/loadBalancerSourceRanges"},
		{`service: {type: LoadBalancer, loadBalancerSourceRanges: ["10.0.0.1"]}`, "/service/loadBalancerSourceRanges/0"},
		{lb, "service.type: a LoadBalancer without TLS shows passwords and tokens to all who can listen on the way: set tls.existingSecret, or service.withoutTLS: true if the network is yours alone"},
		{`service: {type: NodePort}`, "service.type: a NodePort without TLS shows passwords"},
		{`{service: {type: LoadBalancer}, tls: {existingSecret: s}}`, `service.loadBalancerSourceRanges: none is named, so a LoadBalancer lets everybody connect: name who may, as ["10.0.0.0/8"], or say that everybody may: ["0.0.0.0/0", "::/0"]`},
		{`service: {type: LoadBalancer, withoutTLS: true}`, "service.loadBalancerSourceRanges: none is named"},

		{`resources: {limits: {memory: 16Mi}, requests: {memory: 16Mi}}`, "resources.limits.memory: 16Mi is too little: redlockd takes 20 MB before the first client comes: set at least 32Mi"},
		{`resources: {limits: {memory: 64Mi}}`, "resources.requests.memory: 128Mi is more than resources.limits.memory: 64Mi. Kubernetes takes no such pod: lower the request, or raise the limit"},
		{`resources: {limits: {cpu: 250m}}`, "resources.requests.cpu: 500m is more than resources.limits.cpu: 250m"},
		{`resources: {limits: {memory: lots}}`, `resources.limits.memory: "lots" is no quantity`},
		{`resources: {limit: {memory: 1Gi}}`, "limit"},

		{`priorityClassName: 5`, "/priorityClassName"},
		{`masters: {priorityClassName: "A B"}`, "/masters/priorityClassName"},
		{`metrics: {prometheusRule: {enable: true}}`, "/metrics/prometheusRule"},
		{`metrics: {dashboard: {labels: {a: 1}}}`, "/metrics/dashboard/labels/a"},
		{`tls: {clientCA: true}`, "tls.clientCA needs tls.existingSecret"},
		{`metrics: {namespace: ""}`, "/metrics/namespace"},
	} {
		if _, err := render("redlockd", c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one about %s", c.values, err, c.want)
		}
	}
}

// What is near to a bad value, and runs.
func TestGoodValues(t *testing.T) {
	for _, values := range []string{
		`image: {repository: redlockd, tag: dev}`, // of a cluster that has it already, such as kind
		`masters: {maxmemory: 1gb, resources: {limits: {memory: 1610612736}}}`,
		`masters: {maxmemory: 100mb, resources: {requests: {memory: 150Mi}, limits: {memory: 0.15Gi}}}`,
		`masters: {resources: {limits: {memory: null}}}`,
		`settings: {auth: {users: null}, server: {protected_mode: false}}`,
		`settings: {master: {username: default, db: 3}}`,
		`settings: {compat: {allow_unguarded: ["a*"]}, server: {idle_timeout: 1h30m, drain_delay: 0s}}`,
		`{service: {type: LoadBalancer, loadBalancerSourceRanges: ["0.0.0.0/0", "::/0"]}, tls: {existingSecret: s}}`,
		`service: {type: NodePort, withoutTLS: true}`,
		`resources: {requests: {memory: 32Mi, cpu: 0.1}, limits: {memory: 3.3e7k, cpu: 1}}`,
		`resources: {limits: null, requests: null}`,
	} {
		if _, err := render("redlockd", values); err != nil {
			t.Errorf("%s: %v", values, err)
		}
	}
}
