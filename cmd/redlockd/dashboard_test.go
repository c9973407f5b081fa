package main

// Goal: every panel of the dashboard shows something, and Grafana can lay it out. Method: two Prometheis scrape a redlockd that has work to do, one
// with native histograms and one without, and are asked each expression of the dashboard. Grafana itself is not tried.

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
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

// prometheus runs one that scrapes the address, with these flags, and returns its own.
func prometheus(t *testing.T, target string, flags ...string) (addr string) {
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
	cmd := exec.Command("prometheus", append(flags, "--config.file="+dir+"/prometheus.yml", "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+addr)...)
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

// query returns the values of an expression that are numbers, with their labels, or why it has none.
func query(addr, expr string) (values []sample, problem string) {
	resp, err := http.Get("http://" + addr + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err.Error()
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, resp.Status + ": " + err.Error()
	}
	for _, r := range answer.Data.Result {
		if value, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64); err == nil && !math.IsNaN(value) {
			values = append(values, sample{r.Metric, value})
		}
	}
	return values, answer.Error
}

// sample is one value of an expression.
type sample struct {
	labels map[string]string
	value  float64
}

func TestDashboardShowsData(t *testing.T) {
	redisproc.Need(t, "prometheus")
	const maxMemory = 50 << 20
	_, masters := startMasters(t, 3, "--maxmemory", strconv.Itoa(maxMemory))
	dir := t.TempDir()
	writeGoodCertificate(t, dir, 1)
	writeFile(t, dir+"/config.toml", strings.NewReplacer("DIR", dir, "MASTERS", strings.ReplaceAll(masters, ",", `", "`)).Replace(`
		masters = ["MASTERS"]
		[server]
		tls_cert = "DIR/cert.pem"
		tls_key = "DIR/key.pem"
		[auth]
		users = [{name = "default", password = "hunter2"}]
		[http]
		listen = "127.0.0.1:0"
		[metrics]
		prefixes = ["billing:*"]
		[[policy]]
		prefix = "short:*"
		max_ttl = "5s"
		`), 0o600)
	p := launch(t, "--config", dir+"/config.toml", "--bootstrap")
	plain, native := prometheus(t, p.web().addr), prometheus(t, p.web().addr, "--enable-feature=native-histograms")
	conn, err := tls.Dial("tcp", p.addr, &tls.Config{InsecureSkipVerify: true}) // the test is not about certificates
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, conn)
	w.want("AUTH "+secret, "OK")
	w.do("INCR x")

	type question struct{ addr, expr string }
	open := make(map[question]string) // the expressions that have no data yet, and their panels
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*", "$prefix", ".*")
	exprs := make(map[string][]string) // by panel
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			expr := variables.Replace(target.Expr)
			exprs[panel.Title] = append(exprs[panel.Title], expr)
			open[question{native, expr}] = panel.Title
			if panel.Title != "Round trips" || !strings.HasPrefix(expr, "histogram_quantile(") { // its 99 % need native histograms
				open[question{plain, expr}] = panel.Title
			}
		}
	}
	if len(open) < 80 {
		t.Fatalf("got %d expressions: this does not read the dashboard", len(open))
	}
	for deadline := time.Now().Add(patience); len(open) > 0; time.Sleep(100 * time.Millisecond) {
		for _, resource := range []string{"billing:1", "r"} {
			w.lock(resource, "t1")
			w.do("EXTEND " + resource + " t1 30000")
			w.want("UNLOCK "+resource+" t1", "1")
		}
		w.do("INCR x")
		w.do("LOCK short:1 30s")
		problems := ""
		for q, title := range open {
			if values, problem := query(q.addr, q.expr); len(values) > 0 {
				delete(open, q)
			} else {
				problems += fmt.Sprintf("%s: %s: no data %s\n", title, q.expr, problem)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v:\n%s", patience, problems)
		}
	}

	// What these panels show is what is the case.
	shows := func(title string, n int, holds func(values []sample) bool) {
		t.Helper()
		if values, problem := query(native, exprs[title][n]); !holds(values) {
			t.Errorf("%s: got %v %s from %s", title, values, problem, exprs[title][n])
		}
	}
	ofThree := func(holds func(value float64) bool) func(values []sample) bool {
		return func(values []sample) bool {
			return len(values) == 3 && !slices.ContainsFunc(values, func(s sample) bool { return !strings.Contains(masters, s.labels["master"]) || !holds(s.value) })
		}
	}
	refused := func(label, limit string) func(values []sample) bool {
		return func(values []sample) bool {
			return slices.ContainsFunc(values, func(s sample) bool { return s.labels[label] == limit && s.value > 0 })
		}
	}
	shows("Memory of masters", 0, ofThree(func(v float64) bool { return v > 100_000 && v < maxMemory }))
	shows("Memory of masters", 1, ofThree(func(v float64) bool { return v == maxMemory }))
	shows("Round trips", 0, ofThree(func(v float64) bool { return v > 0 && v < 60 }))
	shows("Round trips", 1, ofThree(func(v float64) bool { return v > 0 && v < 60 }))
	shows("Refusals by reason", 0, refused("reason", "counter"))
	shows("Refusals by reason", 2, refused("limit", "max_ttl"))

	// A native histogram is one series for each master, whatever its buckets.
	if series, problem := query(native, `count({__name__=~"redlockd_master_batch_seconds.*"})`); len(series) != 1 || series[0].value != 3 {
		t.Errorf("round trips: got %v series %s, want one for each of the three masters", series, problem)
	}
}
