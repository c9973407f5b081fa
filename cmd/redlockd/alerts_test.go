package main

// Goal: what Prometheus is given is as it wants it, and each alert fires when it should. Method: promtool reads the metrics of a program that
// runs, and runs the unit tests of the alerts, of which every alert must have one.

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"redlockd/redlock/redisproc"
)

// promtool runs promtool in the directory docker, and returns what it prints.
func promtool(t *testing.T, input string, args ...string) string {
	t.Helper()
	redisproc.Need(t, "promtool")
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir, cmd.Stdin = dockerDir, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestMetricsArePrometheus(t *testing.T) {
	p := launch(t, "--http-listen", "127.0.0.1:0")
	w := p.dial()
	w.lock("r", "t1")
	w.want("UNLOCK r t1", "1")
	_, body := p.web().get("/metrics")
	if out := promtool(t, body, "check", "metrics"); out != "" {
		t.Errorf("promtool check metrics: got\n%s\nwant nothing", out)
	}
}

func TestAlerts(t *testing.T) {
	alerts := readDocker(t, "helm/alerts.yaml")
	for _, alert := range strings.Split(alerts, "- alert: ")[1:] {
		if !strings.Contains(alert, " summary: ") || !strings.Contains(alert, " description: ") {
			t.Errorf("an alert must say what is wrong and what to do, and this one has no summary or no description: %s", alert)
		}
	}
	names := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(alerts, -1)
	if len(names) < 10 {
		t.Fatalf("got %d alerts: this does not read alerts.yaml", len(names))
	}
	tests := readDocker(t, "alerts_test.yaml")
	for _, name := range names {
		fires := regexp.MustCompile(`(?m)^ +alertname: ` + name[1] + "\n +exp_alerts:\n +- exp_labels:")
		silent := "alertname: " + name[1] + ", exp_alerts: []}"
		if !fires.MatchString(tests) || !strings.Contains(tests, silent) {
			t.Errorf("alerts_test.yaml: %s needs a moment at which it fires, and one at which it does not", name[1])
		}
	}
	promtool(t, "", "check", "rules", "helm/alerts.yaml")
	promtool(t, "", "test", "rules", "alerts_test.yaml")
}
