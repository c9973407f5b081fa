package test

// Goal: values that cannot run are refused before anything is installed, with the value, the limit, and what to do.

import (
	"strings"
	"testing"
)

func TestBadValues(t *testing.T) {
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

		{`{masters: {existingSecret: s}, settings: {master: {password: p}}}`, "settings.master.password: the chart sets the password of the masters"},

		{`maxTTLSeconds: 1m`, "/maxTTLSeconds"},
		{`maxTTLSeconds: 0`, "/maxTTLSeconds"},
		{`existingSecret: "my secret"`, "/existingSecret"},

		{`masters: {replicas: 4}`, "/masters/replicas"},
		{`masters: {enabled: false}`, "/masters/addresses"},
		{`masters: {enabled: false, addresses: ["a:1", "b:1"]}`, "masters.addresses: 2 masters tolerate no more failures than 1: name an odd number"},
		{`masters: {addresses: ["a:1"]}`, "/masters/addresses"},
		{`masters: {enabled: false, addresses: ["redis://user:password@a:1"]}`, "/masters/addresses/0"},
		{`masters: {existingSecret: "my secret"}`, "/masters/existingSecret"},

		{`settings: {lock: {max_wait: 1m}}`, "lock"},
		{`settings: {server: {bogus: 1}}`, "bogus"},
		{`settings: {server: {max_clients: "10000"}}`, "/settings/server/max_clients"},
		{`settings: {server: {drain_delay: 5}}`, "/settings/server/drain_delay"},
		{`settings: {log: {level: verbose}}`, "/settings/log/level"},
		{`settings: {policy: [{prefix: "a:*", max_tll: 1s}]}`, "max_tll"},
		{`settings: {auth: {users: [{name: a, pasword: b}]}}`, "pasword"},
		{`settings: {auth: {users: []}}`, "/settings/auth/users"},
		{`settings: {masters: [a]}`, "masters"},
		{`settings: {server: {listen: ":1"}}`, "settings.server.listen: the chart sets this"},
		{`settings: {http: {listen: ":1"}}`, "settings.http.listen: the chart sets this"},
		{`settings: {locks: {max_ttl: 2m}}`, "settings.locks.max_ttl: the chart sets this, so take it out: set maxTTLSeconds"},
		{`settings: {server: 5}`, "/settings/server"},

		{`service: {type: ExternalName}`, "/service/type"},
		{`service: {annotations: {a: true}}`, "/service/annotations/a"},
		{`service: {loadBalancerSourceRanges: ["10.0.0.0/8"]}`, "/service/loadBalancerSourceRanges"},
		{`service: {type: LoadBalancer, loadBalancerSourceRanges: ["10.0.0.1"]}`, "/service/loadBalancerSourceRanges/0"},

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
		`settings: {compat: {allow_unguarded: ["a*"]}, server: {idle_timeout: 1h30m, drain_delay: 0s}}`,
	} {
		if _, err := render("redlockd", values); err != nil {
			t.Errorf("%s: %v", values, err)
		}
	}
}
