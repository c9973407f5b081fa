package main

// Goal: every panel of the dashboard shows something, and Grafana can lay it out. Method: a Prometheus scrapes a redlockd that has work to do,
// and is asked each expression of the dashboard. Grafana itself is not tried.

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// dashboard is what the test reads of Grafana's model of a dashboard.
type dashboard struct {
	Title         string
	UID           string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type string
			Datasource struct{ UID string }
			Query      any
		}
	}
	Panels []dashboardPanel
}

type dashboardPanel struct {
	ID          int
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Datasource  struct{ Type, UID string }
	Targets     []struct {
		RefID, Expr, LegendFormat string
		Instant, Range            bool
		Datasource                struct{ Type, UID string }
	}
	FieldConfig struct {
		Defaults struct{ Unit string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(readDocker(t, "helm/grafana.json")), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) < 20 || d.Title == "" || d.UID == "" || d.SchemaVersion < 36 {
		t.Fatalf("got %d panels, title %q, uid %q, schemaVersion %d", len(d.Panels), d.Title, d.UID, d.SchemaVersion)
	}
	return d
}

func TestDashboardLayout(t *testing.T) {
	d := readDashboard(t)
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if v.Type == "query" && v.Datasource.UID != "${datasource}" {
			t.Errorf("variable %s: got data source %q, want the one that is chosen", v.Name, v.Datasource.UID)
		}
	}
	cells, ids, titles := make(map[[2]int]string), make(map[int]string), make(map[string]bool)
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] != "" {
			t.Errorf("%s: has the number %d, as %q", p.Title, p.ID, ids[p.ID])
		}
		if p.Title == "" || titles[p.Title] {
			t.Errorf("%q: there is another one with this title", p.Title)
		}
		ids[p.ID], titles[p.Title] = p.Title, true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if cells[at] != "" || at[0] >= 24 {
					t.Errorf("%s: lies on %q, or beyond the 24 columns", p.Title, cells[at])
				}
				cells[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if !slices.Contains([]string{"timeseries", "stat", "table", "state-timeline"}, p.Type) {
			t.Errorf("%s: no panel of Grafana is a %q", p.Title, p.Type)
		}
		if !slices.Contains([]string{"short", "s", "ops", "bytes", "Bps"}, p.FieldConfig.Defaults.Unit) {
			t.Errorf("%s: no unit of Grafana is %q", p.Title, p.FieldConfig.Defaults.Unit)
		}
		if len(p.Targets) == 0 {
			t.Errorf("%s: shows nothing", p.Title)
		}
		refs := make(map[string]bool)
		for _, target := range p.Targets {
			if refs[target.RefID] || target.RefID == "" || target.Instant == target.Range || target.Datasource.UID != "${datasource}" || target.Datasource.Type != "prometheus" {
				t.Errorf("%s: got target %+v", p.Title, target)
			}
			refs[target.RefID] = true
			for _, name := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !slices.Contains(variables, name[1]) && name[1] != "__rate_interval" {
					t.Errorf("%s: there is no variable %s", p.Title, name[0])
				}
			}
			if !strings.Contains(target.Expr, `instance=~"$instance"`) {
				t.Errorf("%s: does not filter by the redlockds that are chosen: %s", p.Title, target.Expr)
			}
		}
	}
}

// prometheus runs one that scrapes the address, and returns its own.
func prometheus(t *testing.T, target string) (addr string) {
	t.Helper()
	redisproc.Need(t, "prometheus")
	dir := t.TempDir()
	writeFile(t, dir+"/prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s}
rule_files: []
scrape_configs: [{job_name: redlockd, static_configs: [{targets: [%q]}]}]
`, target), 0o600)
	addr = redisproc.KeepAddr(t)
	var log strings.Builder
	cmd := exec.Command("prometheus", "--config.file="+dir+"/prometheus.yml", "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+addr)
	cmd.Stderr, cmd.SysProcAttr = &log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus: %s", log.String())
		}
	})
	return addr
}

// query returns how many values an expression has that are numbers, or why it has none.
func query(addr, expr string) (values int, problem string) {
	resp, err := http.Get("http://" + addr + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, resp.Status + ": " + err.Error()
	}
	for _, r := range answer.Data.Result {
		if r.Value[1] != "NaN" {
			values++
		}
	}
	return values, answer.Error
}

func TestDashboardShowsData(t *testing.T) {
	redisproc.Need(t, "prometheus")
	dir := t.TempDir()
	writeGoodCertificate(t, dir, 1)
	writeFile(t, dir+"/config.toml", strings.ReplaceAll(`
		masters = "embedded"
		[server]
		tls_cert = "DIR/cert.pem"
		tls_key = "DIR/key.pem"
		[auth]
		users = [{name = "default", password = "hunter2"}]
		[http]
		listen = "127.0.0.1:0"
		[metrics]
		prefixes = ["billing:*"]
		`, "DIR", dir), 0o600)
	p := launch(t, "--config", dir+"/config.toml")
	addr := prometheus(t, p.web().addr)
	conn, err := tls.Dial("tcp", p.addr, &tls.Config{InsecureSkipVerify: true}) // the test is not about certificates
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, conn)
	w.want("AUTH "+secret, "OK")
	w.do("INCR x")

	open := make(map[string]string) // the expressions that have no data yet, and why
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*", "$prefix", ".*")
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			open[variables.Replace(target.Expr)] = panel.Title
		}
	}
	if len(open) < 40 {
		t.Fatalf("got %d expressions: this does not read the dashboard", len(open))
	}
	for deadline := time.Now().Add(patience); len(open) > 0; time.Sleep(100 * time.Millisecond) {
		for _, resource := range []string{"billing:1", "r"} {
			w.lock(resource, "t1")
			w.do("EXTEND " + resource + " t1 30000")
			w.want("UNLOCK "+resource+" t1", "1")
		}
		w.do("INCR x")
		problems := ""
		for expr, title := range open {
			if values, problem := query(addr, expr); values > 0 {
				delete(open, expr)
			} else {
				problems += fmt.Sprintf("%s: %s: no data %s\n", title, expr, problem)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v:\n%s", patience, problems)
		}
	}
}
