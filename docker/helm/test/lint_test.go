package test

// Goal: "helm lint --strict" finds nothing. Method: its package, with values that differ much. A chart with faults is linted, too.

import (
	"os"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

// linted are the warnings and errors: what --strict takes for errors.
func linted(t *testing.T, dir, values string) (found []string) {
	t.Helper()
	own, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range lint.AllWithKubeVersion(dir, own, "locks", nil).Messages {
		if m.Severity >= support.WarningSev {
			found = append(found, m.Error())
		}
	}
	return found
}

func TestLint(t *testing.T) {
	for name, values := range varied {
		if found := linted(t, "..", values); found != nil {
			t.Errorf("%s: got %q", name, found)
		}
	}
	if found := linted(t, "..", "settings: {server: {bogus: 1}}"); !strings.Contains(strings.Join(found, "\n"), "bogus") {
		t.Errorf("a setting that does not exist: got %q", found)
	}
	broken := t.TempDir()
	if err := os.CopyFS(broken, os.DirFS("..")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken+"/templates/more.yaml", []byte("apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: more}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := linted(t, broken, ""); len(found) != 1 || !strings.Contains(found[0], "deprecated") {
		t.Errorf("an object of an API that is no more: got %q", found)
	}
}
