package test

// Goal: the masters demand a password, and a fleet that runs without one gets it without losing a lock. Method: a redis-server runs the
// commands of the pod, and the chart is rendered beside objects that a cluster would have. cmd/redlockd makes the change on real masters.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// masterOf is the container of the masters.
func masterOf(t *testing.T, values string) corev1.Container {
	t.Helper()
	var set appsv1.StatefulSet
	if err := json.Unmarshal(objects(t, manifest(t, "redlockd", values))["StatefulSet redlockd-master"], &set); err != nil {
		t.Fatal(err)
	}
	return set.Spec.Template.Spec.Containers[0]
}

// The masters demand the password, and redlockd logs in with it. Method: a redis-server runs the command of the pod.
func TestMastersHaveAPassword(t *testing.T) {
	text := manifest(t, "redlockd", scheduled)
	if got := fmt.Sprint(configOf(t, text, "redlockd")["master"]); got != "map[password_file:/run/secrets/redlockd-masters/password]" {
		t.Errorf("config.toml: [master] is %s", got)
	}
	for _, part := range []string{"{name: masters, mountPath: /run/secrets/redlockd-masters}", "secret: {secretName: masters, defaultMode: 0440}"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	container := masterOf(t, scheduled)
	if env := container.Env; len(env) != 1 || env[0].Name != "REDISCLI_AUTH" || env[0].ValueFrom.SecretKeyRef.Name != "masters" || env[0].ValueFrom.SecretKeyRef.Key != "password" {
		t.Fatalf("got the variables %+v", env)
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatalf("%v: make redis installs it", err)
	}
	const password = `a "b' \c $d #e`
	socket := filepath.Join(t.TempDir(), "s")
	command := strings.Replace(container.Command[2], "/etc/redis/redis.conf", "../redis.conf --port 0 --unixsocket "+socket, 1)
	server := exec.CommandContext(t.Context(), container.Command[0], container.Command[1], command)
	inPod := append(os.Environ(), "REDISCLI_AUTH="+password+"\n") // a Secret made of a file ends so
	server.Env = inPod
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ask := func(password string, args ...string) string {
		cli := exec.Command("redis-cli", append([]string{"-s", socket}, args...)...)
		cli.Env = append(os.Environ(), "REDISCLI_AUTH="+password)
		out, _ := cli.CombinedOutput()
		return string(out)
	}
	for deadline := time.Now().Add(20 * time.Second); ask(password, "PING") != "PONG\n"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("with the password: got %s", ask(password, "PING"))
		}
	}
	if got := ask("another", "PING"); !strings.Contains(got, "NOAUTH") {
		t.Errorf("with another password: got %s", got)
	}
	if got := ask(password, "CONFIG", "GET", "maxmemory"); got != "maxmemory\n1073741824\n" {
		t.Errorf("masters.maxmemory is 1gb, the master has %s", got)
	}
	// The readiness logs in, too. That it says who votes is tried in cmd/redlockd.
	ask(password, "HSET", "redlockd:members", "v", "memory -", "r", "a,memory,v,b")
	probe := container.ReadinessProbe.Exec.Command
	ready := exec.Command(probe[0], probe[1], strings.ReplaceAll(probe[2], "redis-cli", "redis-cli -s "+socket))
	ready.Env = inPod
	if out, err := ready.CombinedOutput(); err != nil {
		t.Errorf("a master that votes is not Ready: %v: %s", err, out)
	}
	patience, cancel := context.WithTimeout(t.Context(), 20*time.Second) // one that starts all the same would never end
	defer cancel()
	empty := exec.CommandContext(patience, container.Command[0], container.Command[1], command)
	empty.Env = append(os.Environ(), "REDISCLI_AUTH=")
	if out, err := empty.CombinedOutput(); err == nil || !strings.Contains(string(out), "set password in the Secret masters") {
		t.Errorf("an empty password: got %v, %s", err, out)
	}
	if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", server.Process.Pid)); err == nil && (!bytes.HasPrefix(args, []byte("redis-server")) || bytes.Contains(args, []byte("c $d"))) {
		t.Errorf("the process is %q, want redis-server, which gets the signals of the kubelet, without the password", args)
	}
}

// Who names no Secret has one all the same, under a name that the notes and kubernetes.yaml have a command for.
func TestMastersHaveAPasswordByDefault(t *testing.T) {
	for values, want := range map[string]string{"": "redlockd-masters", "masters: {existingSecret: mine}": "mine", open: ""} {
		text := manifest(t, "redlockd", values)
		env, names := masterOf(t, values).Env, strings.Count(text, "secretName: redlockd-masters,")+strings.Count(text, "secretName: mine,")
		if want == "" {
			if env != nil || names != 0 || strings.Contains(text, "password_file = \"/run/secrets/redlockd-masters") {
				t.Errorf("%s: got the variables %v, and %d volumes with the password of masters; want none", values, env, names)
			}
			continue
		}
		if len(env) != 1 || env[0].ValueFrom.SecretKeyRef.Name != want || !strings.Contains(text, "secretName: "+want+",") {
			t.Errorf("%s: got the variables %+v in\n%s", values, env, text)
		}
		files, err := render("redlockd", values)
		if err != nil {
			t.Fatal(err)
		}
		if command := "create secret generic " + want + " --from-literal=password="; !strings.Contains(files["redlockd/templates/NOTES.txt"], command) {
			t.Errorf("%s: the notes do not say %s", values, command)
		}
	}
}

// cluster has one object of each kind.
type cluster map[string]*unstructured.Unstructured

func (c cluster) GetClientFor(_, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return one{object: c[kind]}, true, nil
}

type one struct {
	dynamic.NamespaceableResourceInterface
	object *unstructured.Unstructured
}

func (o one) Namespace(string) dynamic.ResourceInterface { return o }

func (o one) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	if o.object == nil || o.object.GetName() != name {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
	}
	return o.object, nil
}

// installed is a cluster with a release of these values.
func installed(t *testing.T, values string) cluster {
	t.Helper()
	all := cluster{}
	for name, object := range objects(t, manifest(t, "redlockd", values)) {
		if name == "StatefulSet redlockd-master" || name == "Deployment redlockd" {
			kind, _, _ := strings.Cut(name, " ")
			all[kind] = new(unstructured.Unstructured)
			if err := json.Unmarshal(object, &all[kind].Object); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// Masters that demand a password at once, and redlockds that do not know it yet: each master that restarts would be lost to those.
func TestMastersGetAPasswordInTwoSteps(t *testing.T) {
	const refused = "Take two steps: make the Secret redlockd-masters, and upgrade with masters.existingSecret=redlockd-masters and masters.auth.enabled=false"
	const known = "masters: {existingSecret: redlockd-masters, auth: {enabled: false}}"
	for _, c := range []struct {
		what   string
		before cluster
		values string
		want   string
	}{
		{"the first install", nil, "", ""},
		{"at once", installed(t, open), "", refused},
		{"step one", installed(t, open), known, ""},
		{"step two", installed(t, known), "", ""},
		{"as before", installed(t, open), open, ""},
		{"a password as before", installed(t, scheduled), scheduled, ""},
		{"another image", installed(t, ""), "image: {repository: r, tag: t}", ""},
	} {
		chart, values, err := toRender("redlockd", c.values)
		if err != nil {
			t.Fatal(err)
		}
		_, err = engine.RenderWithClientProvider(chart, values, c.before)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got error %v, want %q", c.what, err, c.want)
		}
	}
}
