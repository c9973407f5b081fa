package test

// Goal: the chart installs objects that Kubernetes takes, with its default values those of kubernetes.yaml, and refuses values that
// cannot work. Method: Helm's own loader, schema check and engine render it. Each object is decoded strictly into the types of the
// Kubernetes API, which finds fields that do not exist, and checked against the OpenAPI schema that a Kubernetes server publishes, which
// finds fields that are missing. No cluster is asked.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// schemasModule has the OpenAPI schemas of Kubernetes as files. It is downloaded and not imported: its code does not compile with the
// Kubernetes modules that Helm needs.
const schemasModule = "sigs.k8s.io/kubectl-validate@v0.0.4"

const (
	manifestFile = "../../kubernetes.yaml"
	header       = `# redlockd in front of five Redis masters in Kubernetes: what the chart in helm/ renders. Before you apply it:
#   kubectl create secret generic redlockd --from-literal=password=…    # what clients log in with
#   kubectl create secret generic redlockd-masters --from-literal=password="$(openssl rand -hex 32)"    # what redlockd logs in to the masters with
# and put the name of your image into the Deployment, in place of registry.example.org/redlockd:1.2.0.
`
	schemaVersion = "1.30" // the newest whose schemas kubectl-validate has
)

// toRender reads the chart, and the values over its own. An image must be named: tests that are about something else have this one.
func toRender(release, values string) (*chart.Chart, chartutil.Values, error) {
	chart, err := loader.Load("..")
	if err != nil {
		return nil, nil, err
	}
	own, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, nil, err
	}
	if own["image"] == nil {
		own["image"] = map[string]any{"repository": "registry.example.org/redlockd", "tag": "1.2.0"}
	}
	all, err := chartutil.ToRenderValues(chart, own, chartutil.ReleaseOptions{Name: release, Namespace: "locks", IsInstall: true}, nil)
	return chart, all, err
}

// render returns the files that the chart makes of the values, as helm install would, or the error that it would print.
func render(release, values string) (map[string]string, error) {
	chart, all, err := toRender(release, values)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(chart, all)
}

// manifest renders and returns all objects as one text.
func manifest(t *testing.T, release, values string) string {
	t.Helper()
	files, err := render(release, values)
	if err != nil {
		t.Fatal(err)
	}
	masters, own := strings.TrimSpace(files["redlockd/templates/masters.yaml"]), strings.TrimSpace(files["redlockd/templates/redlockd.yaml"])
	if masters == "" {
		return own + "\n"
	}
	return masters + "\n---\n" + own + "\n"
}

// objects are the documents of a manifest: "Kind name" to JSON.
func objects(t *testing.T, manifest string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, text := range strings.Split(manifest, "\n---\n") {
		object, err := yaml.YAMLToJSONStrict([]byte(text))
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err == nil {
			err = json.Unmarshal(object, &head)
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		name := head.Kind + " " + head.Metadata.Name
		if all[name] != nil {
			t.Errorf("there are two of %s", name)
		}
		all[name] = object
	}
	return all
}

// configOf is the config.toml in the manifest.
func configOf(t *testing.T, manifest, release string) (c map[string]any) {
	t.Helper()
	var object corev1.ConfigMap
	if err := json.Unmarshal(objects(t, manifest)["ConfigMap "+release], &object); err != nil {
		t.Fatal(err)
	}
	if _, err := toml.Decode(object.Data["config.toml"], &c); err != nil {
		t.Fatalf("%v in\n%s", err, object.Data["config.toml"])
	}
	return c
}

// Without what is Helm's: the digest of the ConfigMap, which only helm upgrade needs, and the label by which Helm knows its own objects; and
// without the version of an image that is only an example.
var (
	version   = `, app.kubernetes.io/version: "1.2.0"`
	digest    = regexp.MustCompile(`(?m)^ +checksum/config: [0-9a-f]{64}\n`)
	managedBy = regexp.MustCompile(`app\.kubernetes\.io/managed-by: "Helm", `)
)

// TestDefaultsAreTheManifest: UPDATE=1 writes kubernetes.yaml anew.
func TestDefaultsAreTheManifest(t *testing.T) {
	rendered := manifest(t, "redlockd", "")
	if len(digest.FindAllString(rendered, -1)) != 1 {
		t.Error("want one digest of the ConfigMap, so that helm upgrade restarts the pods")
	}
	want := header + strings.ReplaceAll(managedBy.ReplaceAllString(digest.ReplaceAllString(rendered, ""), ""), version, "")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(manifestFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(manifestFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(want, "\n")
		for i := 0; i < len(gotLines) && i < len(wantLines); i++ {
			if gotLines[i] != wantLines[i] {
				t.Fatalf("kubernetes.yaml:%d: got %q, want %q: change the chart, and run UPDATE=1 go test here", i+1, gotLines[i], wantLines[i])
			}
		}
		t.Fatalf("kubernetes.yaml has %d lines, the chart makes %d: run UPDATE=1 go test here", len(gotLines), len(wantLines))
	}
}

// many sets what the defaults leave out.
const many = `
image: {repository: registry.example.org/locks/redlockd, tag: v9, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
imagePullSecrets: [{name: registry}]
replicas: 3
existingSecret: passwords
maxTTLSeconds: 30
service: {type: LoadBalancer, annotations: {example.org/internal: "true"}, loadBalancerSourceRanges: ["10.0.0.0/8", "fd00::/8"]}
masters: {enabled: false, addresses: ["10.0.0.1:6379", "10.0.0.2:6379", "[fd00::3]:6379"]}
settings:
  server: {max_clients: 20000, drain_delay: 6s}
  locks: {drift_factor: 0.02, max_wait: 10s}
  auth: {users: [{name: a, password_file: /run/secrets/redlockd/a, resources: ["a:*", "b"], max_locks: 10000}]}
  audit: {file: /var/log/redlockd/audit.jsonl}
  http: {tls_cert: /run/secrets/redlockd-tls/tls.crt, tls_key: /run/secrets/redlockd-tls/tls.key}
  master: {tls: true, username: redlockd, password_file: /run/secrets/redlockd/masters}
  log: {format: null}
  policy: [{prefix: "billing:*", max_ttl: 30s, fence: always}, {prefix: "cron:*", max_waiters: 5}]
tls: {existingSecret: certificate, clientCA: true}
resources: {limits: {cpu: 2}}
extraVolumes: [{name: audit, emptyDir: {sizeLimit: 1Gi}}]
extraVolumeMounts: [{name: audit, mountPath: /var/log/redlockd}]
priorityClassName: important
nodeSelector: {disk: none}
tolerations: [{key: locks, operator: Exists}]
metrics: {namespace: prometheus, serviceMonitor: {enabled: true, labels: {release: prometheus}},
  prometheusRule: {enabled: true, labels: {release: prometheus}}, dashboard: {enabled: true}}
`

// open has masters without a password, as charts of before had.
const open = `masters: {auth: {enabled: false}, maxmemory: 200mb}`

const scheduled = `
masters: {replicas: 3, existingSecret: masters, maxmemory: 1gb, resources: {requests: {memory: 2Gi}, limits: {memory: 2Gi}}, priorityClassName: important, nodeSelector: {disk: none}, tolerations: [{key: locks, operator: Exists}]}
imagePullSecrets: [{name: registry}]
maxTTLSeconds: 5
`

// varied are values that differ much.
var varied = map[string]string{"defaults": "", "many": many, "scheduled": scheduled, "open": open, "files": files}

func TestObjectsAreValid(t *testing.T) {
	for name, values := range varied {
		t.Run(name, func(t *testing.T) {
			for name, object := range objects(t, manifest(t, "redlockd", values)) {
				if strings.HasPrefix(name, "ServiceMonitor ") || strings.HasPrefix(name, "PrometheusRule ") {
					continue // no types of Kubernetes; see TestServiceMonitor and TestMonitoring
				}
				if err := validate(t, object); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// Whatever is set, the pods may do no more than they need.
func TestPodsMayDoLittle(t *testing.T) {
	for _, values := range varied {
		for name, object := range objects(t, manifest(t, "redlockd", values)) {
			if !strings.HasPrefix(name, "Deployment ") && !strings.HasPrefix(name, "StatefulSet ") {
				continue
			}
			var of appsv1.Deployment // a StatefulSet has its pods at the same place
			if err := json.Unmarshal(object, &of); err != nil {
				t.Fatal(err)
			}
			pod := of.Spec.Template.Spec
			may := pod.Containers[0].SecurityContext
			if len(pod.Containers) != 1 || !*may.ReadOnlyRootFilesystem || *may.AllowPrivilegeEscalation || fmt.Sprint(may.Capabilities.Drop) != "[ALL]" ||
				!*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.AutomountServiceAccountToken {
				t.Errorf("%s: got %+v of the pod and %+v of its container", name, pod.SecurityContext, may)
			}
		}
	}
}

// A check that finds nothing proves nothing: these are objects that it must refuse.
func TestInvalidObjectsAreFound(t *testing.T) {
	whole := manifest(t, "redlockd", "")
	for _, c := range []struct{ object, before, after, want string }{
		{"Deployment redlockd", `"readinessProbe"`, `"readynessProbe"`, "readynessProbe"},
		{"Deployment redlockd", `"periodSeconds":2`, `"periodSeconds":"2"`, "periodSeconds"},
		{"Deployment redlockd", `"name":"redlockd","ports"`, `"ports"`, "name"}, // of the container
		{"PodDisruptionBudget redlockd", `"policy/v1"`, `"policy/v9"`, "policy/v9"},
	} {
		object := objects(t, whole)[c.object]
		broken := bytes.Replace(object, []byte(c.before), []byte(c.after), 1)
		if bytes.Equal(object, broken) {
			t.Fatalf("%s has no %s: %s", c.object, c.before, object)
		}
		if err := validate(t, broken); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: got error %v, want one about %s", c.object, c.after, err, c.want)
		}
	}
}

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// schemas are those that a test has compiled, by the path of their file.
var schemas = map[string]*jsonschema.Schema{}

// validate decodes an object into its type of the Kubernetes API, and checks it against its schema.
func validate(t *testing.T, object []byte) error {
	t.Helper()
	_, kind, err := strict.Decode(object, nil, nil)
	if err != nil {
		return err
	}
	path := "apis/" + kind.Group + "/" + kind.Version
	if kind.Group == "" {
		path = "api/" + kind.Version
	}
	url := "k8s:///" + path + "/" + kind.Kind
	if schemas[url] == nil {
		schemas[url] = compile(t, path, url, kind.Kind)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(object))
	if err != nil {
		return err
	}
	return schemas[url].Validate(value)
}

var downloadSchemas = sync.OnceValues(func() (dir string, err error) {
	download := exec.Command("go", "mod", "download", "-json", schemasModule)
	download.Stderr = os.Stderr
	text, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("%v: %w: %s", download.Args, err, text)
	}
	var module struct{ Dir string }
	err = json.Unmarshal(text, &module)
	return filepath.Join(module.Dir, "pkg", "openapiclient", "builtins", schemaVersion), err
})

// schemaDir is where the schemas are.
func schemaDir(t *testing.T) string {
	t.Helper()
	dir, err := downloadSchemas()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// compile returns the schema of a kind, which is the one with the GroupVersionKind in x-kubernetes-group-version-kind.
func compile(t *testing.T, path, url, kind string) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(schemaDir(t), filepath.FromSlash(path)+".json"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, schema := range document.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any) {
		if kinds, _ := schema.(map[string]any)["x-kubernetes-group-version-kind"].([]any); len(kinds) != 1 || kinds[0].(map[string]any)["kind"] != kind {
			continue
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource(url, document); err != nil {
			t.Fatal(err)
		}
		compiled, err := compiler.Compile(url + "#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return compiled
	}
	t.Fatalf("%s has no schema of %s", path, kind)
	return nil
}

func TestValuesReachTheObjects(t *testing.T) {
	text := manifest(t, "redlockd", many)
	want := map[string]any{
		"masters": []any{"10.0.0.1:6379", "10.0.0.2:6379", "[fd00::3]:6379"},
		"server": map[string]any{"listen": ":6380", "max_clients": int64(20000), "drain_delay": "6s",
			"tls_cert": "/run/secrets/redlockd-tls/tls.crt", "tls_key": "/run/secrets/redlockd-tls/tls.key", "tls_client_ca": "/run/secrets/redlockd-tls/ca.crt"},
		"audit":  map[string]any{"file": "/var/log/redlockd/audit.jsonl"},
		"http":   map[string]any{"listen": ":9121", "tls_cert": "/run/secrets/redlockd-tls/tls.crt", "tls_key": "/run/secrets/redlockd-tls/tls.key"},
		"locks":  map[string]any{"max_ttl": "30s", "drift_factor": 0.02, "max_wait": "10s"},
		"auth":   map[string]any{"users": []map[string]any{{"name": "a", "password_file": "/run/secrets/redlockd/a", "resources": []any{"a:*", "b"}, "max_locks": int64(10000)}}},
		"master": map[string]any{"tls": true, "username": "redlockd", "password_file": "/run/secrets/redlockd/masters"},
		"log":    map[string]any{},
		"policy": []map[string]any{{"prefix": "billing:*", "max_ttl": "30s", "fence": "always"}, {"prefix": "cron:*", "max_waiters": int64(5)}},
	}
	if got := configOf(t, text, "redlockd"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("config.toml: got %v, want %v", got, want)
	}
	for _, part := range []string{"image: registry.example.org/locks/redlockd:v9@sha256:0123456789abcdef0", "secretName: passwords", "secretName: certificate", "replicas: 3", "path: /readyz, port: 9121, scheme: HTTPS",
		"type: LoadBalancer\n", "externalTrafficPolicy: Local", "- 10.0.0.0/8", "example.org/internal: \"true\"", "priorityClassName: important"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if strings.Contains(text, "redlockd-master") {
		t.Error("masters run elsewhere, and the chart installs some")
	}
}

// The readiness of a master is its vote, and it is asked for in the database that redlockd uses. cmd/redlockd runs the command.
func TestMastersAreReadyWhenTheyVote(t *testing.T) {
	for values, want := range map[string]string{"": "redis-cli", "settings: {master: {db: 3}}": "redis-cli -n 3"} {
		var set appsv1.StatefulSet
		if err := json.Unmarshal(objects(t, manifest(t, "redlockd", values))["StatefulSet redlockd-master"], &set); err != nil {
			t.Fatal(err)
		}
		probe := set.Spec.Template.Spec.Containers[0].ReadinessProbe
		if probe == nil || probe.Exec == nil || len(probe.Exec.Command) != 3 {
			t.Fatalf("%s: got the probe %+v, want a command for sh", values, probe)
		}
		for _, part := range []string{want + " HGET redlockd:members v ", want + " HGET redlockd:members r "} {
			if !strings.Contains(probe.Exec.Command[2], part) {
				t.Errorf("%s: no %q in\n%s", values, part, probe.Exec.Command[2])
			}
		}
		// A wait beside the vote would only make a rolling update slower.
		if probe.InitialDelaySeconds > 0 || set.Spec.MinReadySeconds > 0 {
			t.Errorf("%s: the master is Ready %d s, and available %d s later than it votes", values, probe.InitialDelaySeconds, set.Spec.MinReadySeconds)
		}
		// None votes before redlockd has found all of them.
		if set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			t.Errorf("%s: the masters are started one after the other, and the first waits for the vote of all", values)
		}
		var service corev1.Service
		if err := json.Unmarshal(objects(t, manifest(t, "redlockd", values))["Service redlockd-master"], &service); err != nil {
			t.Fatal(err)
		}
		if !service.Spec.PublishNotReadyAddresses {
			t.Errorf("%s: redlockd does not find masters that are not Ready, and they never vote", values)
		}
	}
}

// The monitor finds the Service of the metrics by its label and port.
func TestServiceMonitor(t *testing.T) {
	all := objects(t, manifest(t, "redlockd", many))
	var monitor struct {
		Metadata struct{ Labels map[string]string }
		Spec     struct {
			Selector  struct{ MatchLabels map[string]string }
			Endpoints []struct{ Port, Scheme string }
		}
	}
	var service corev1.Service
	if err := yaml.Unmarshal(all["ServiceMonitor redlockd"], &monitor); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(all["Service redlockd-metrics"], &service); err != nil {
		t.Fatal(err)
	}
	if selected := monitor.Spec.Selector.MatchLabels; len(selected) != 1 || selected["app"] != service.Labels["app"] || len(monitor.Spec.Endpoints) != 1 ||
		monitor.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name || monitor.Spec.Endpoints[0].Scheme != "https" || monitor.Metadata.Labels["release"] != "prometheus" {
		t.Errorf("got the monitor %+v of the Service %+v", monitor, service.Spec)
	}
	if _, there := objects(t, manifest(t, "redlockd", ""))["ServiceMonitor redlockd"]; there {
		t.Error("the defaults have a ServiceMonitor, which a cluster without the operator refuses")
	}
}

// The alerts and the dashboard are those of the files, so there is no second copy of them.
func TestMonitoring(t *testing.T) {
	all := objects(t, manifest(t, "redlockd", many))
	var rule struct {
		Metadata struct{ Labels map[string]string }
		Spec     any
	}
	if err := yaml.Unmarshal(all["PrometheusRule redlockd"], &rule); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var alerts any
	if err := yaml.Unmarshal(text, &alerts); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(rule.Spec, alerts) || rule.Metadata.Labels["release"] != "prometheus" {
		t.Errorf("got %+v, want the alerts %+v", rule, alerts)
	}
	var dashboard corev1.ConfigMap
	if err := yaml.Unmarshal(all["ConfigMap redlockd-dashboard"], &dashboard); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile("../grafana.json")
	if err != nil || strings.TrimSpace(dashboard.Data["redlockd.json"]) != strings.TrimSpace(string(text)) || dashboard.Labels["grafana_dashboard"] != "1" {
		t.Errorf("got %v with the labels %v, want the dashboard", err, dashboard.Labels)
	}
	for name := range objects(t, manifest(t, "redlockd", "")) {
		if strings.HasPrefix(name, "PrometheusRule ") || name == "ConfigMap redlockd-dashboard" {
			t.Errorf("the defaults have %s, which a cluster without the operator refuses, or nobody reads", name)
		}
	}
}

const sha = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// All objects have the labels that Kubernetes recommends. Selectors can never be changed, so they have none of them: an upgrade of a release
// that was installed before must go on, and a new image changes the version.
func TestLabels(t *testing.T) {
	for values, versions := range map[string][2]string{
		"": {"1.2.0", "7.2"},
		"{image: {repository: 'registry.example.org:5000/redlockd', digest: '" + sha + "'}, masters: {image: {digest: '" + sha + "'}}}": {"", "7.2"},
		"{image: {repository: 'localhost:5000/redlockd', tag: '3'}, masters: {image: {tag: '', digest: '" + sha + "'}}}":                {"3", ""},
	} {
		for name, object := range objects(t, manifest(t, "redlockd", values)) {
			var o struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					Selector any
					Template struct {
						Metadata struct{ Labels map[string]string }
					}
				}
			}
			if err := json.Unmarshal(object, &o); err != nil {
				t.Fatal(err)
			}
			component, version := "server", versions[0]
			if strings.HasSuffix(name, "-master") {
				component, version = "master", versions[1]
			}
			all := []map[string]string{o.Metadata.Labels}
			if o.Spec.Template.Metadata.Labels != nil {
				all = append(all, o.Spec.Template.Metadata.Labels)
			}
			for _, labels := range all {
				for label, want := range map[string]string{"name": "redlockd", "instance": "redlockd", "component": component, "part-of": "redlockd", "managed-by": "Helm", "version": version} {
					if got := labels["app.kubernetes.io/"+label]; got != want {
						t.Errorf("%s with %s: the label %s is %q, want %q", name, values, label, got, want)
					}
				}
			}
			if selector := fmt.Sprint(o.Spec.Selector); strings.Contains(selector, "app.kubernetes.io") {
				t.Errorf("%s: selects by %s", name, selector)
			}
		}
	}
}

// Two releases in one namespace must not select each other's pods.
func TestOtherReleaseSharesNoName(t *testing.T) {
	first, second := objects(t, manifest(t, "redlockd", "")), objects(t, manifest(t, "blue", ""))
	for name := range first {
		if second[name] != nil {
			t.Errorf("both releases have %s", name)
		}
	}
	if second["Deployment blue-redlockd"] == nil {
		t.Error("no Deployment blue-redlockd")
	}
	for name, object := range second {
		if bytes.Contains(object, []byte(`"app":"redlockd`)) {
			t.Errorf("%s selects pods of the other release: %s", name, object)
		}
	}
}

func TestNotesNameTheSecret(t *testing.T) {
	files, err := render("blue", "")
	if err != nil {
		t.Fatal(err)
	}
	if notes := files["redlockd/templates/NOTES.txt"]; !strings.Contains(notes, "kubectl --namespace locks create secret generic blue-redlockd --from-literal=password=") {
		t.Errorf("got %s", notes)
	}
}

func TestNotesNameTheMastersSecretAndTheAddress(t *testing.T) {
	files, err := render("redlockd", "{masters: {existingSecret: mine}, service: {type: NodePort, withoutTLS: true}}")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"create secret generic mine --from-literal=password=", "get service redlockd\n"} {
		if notes := files["redlockd/templates/NOTES.txt"]; !strings.Contains(notes, part) {
			t.Errorf("no %q in %s", part, notes)
		}
	}
}
