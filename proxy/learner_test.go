package proxy

// Goal: INFO, the metrics and the page say how far a learner has got what the other masters remember, from whom, and what stands in the
// way; who may not see masters is told no name. Method: a master that has restarted while SCAN takes long on the others, in virtual time;
// what each is told in tables.

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/status"
	"redlockd/redlock"
	"redlockd/redlock/memmaster"
)

func TestALearnerIsShown(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, guarded)
		srv.awaitUp(5)
		ops, billing := srv.dial(), srv.dial()
		ops.do("AUTH", "ops", "right").is("+OK")
		billing.do("AUTH", "billing", "bill").is("+OK")
		for i := range 10 {
			ops.do("LOCK", fmt.Sprint("r", i), "60000").granted(1, 60000)
		}
		srv.masters[0].Crash(false)
		srv.masters[0].Restart()
		for _, m := range srv.masters {
			m.SetCost(func(args [][]byte) time.Duration {
				if strings.EqualFold(string(args[0]), "scan") {
					return time.Second
				}
				return 0
			})
		}
		learner := func() redlock.Copying {
			for _, s := range status.Learners(srv.opts.Engine.Membership()) {
				return status.CopyingOf(s)
			}
			return redlock.Copying{}
		}
		eventually(t, "the learner has got the locks", func() bool { return learner().Given == 10 })

		const from = "master-2:6379,master-3:6379,master-4:6379,master-5:6379"
		percent := learner().Percent
		if percent == 0 {
			t.Error("nothing was looked at, and all is given")
		}
		got := ops.info("masters")["learner0"]
		want := fmt.Sprintf("seat=master-1:6379,addr=master-1:6379,left_s=\\d\\d,copied_locks=10,copied_percent=%d,from=%s,problem=", percent, strings.ReplaceAll(from, ",", ";"))
		if !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("INFO: learner0: got %q, want %q", got, want)
		}
		if got, there := billing.info("masters")["learner0"]; there {
			t.Errorf("INFO of a user who may not see masters: learner0: got %q, want none", got)
		}
		for name, want := range map[string]string{"copying": "1", "copied_locks": "10", "copied_ratio": fmt.Sprint(float64(percent) / 100)} {
			srv.wantMetric(`redlockd_learner_`+name+`{master="master-1:6379"}`, want)
		}
		text := fmt.Sprintf("remember: 10 locks so far (%d %%). It votes when that is done.", percent)
		srv.again()
		wants(t, srv.visit(visit{path: "/"}).Body.String(), []string{"It is being given what " + strings.ReplaceAll(from, ",", ", ") + " " + text}, nil)

		srv.awaitUp(5)
		if got, there := ops.info("masters")["learner0"]; there {
			t.Errorf("INFO: learner0 when all vote: got %q, want none", got)
		}
		srv.again()
		wants(t, srv.visit(visit{path: "/", user: "ops", password: "right"}).Body.String(), []string{"5 of 5 masters"}, []string{"being given"})
		if _, _, body := srv.get("GET", "/metrics"); strings.Contains(body, "redlockd_learner_") {
			t.Error("/metrics has values of a learner when all vote")
		}
	})
}

// Where nobody votes, nobody has anything to give. INFO says it of each learner, and the page leaves it at the verdict.
func TestLearnersWithoutVoters(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		var masters []*memmaster.Master
		for range 3 {
			m := memmaster.New(memmaster.Options{})
			t.Cleanup(m.Close)
			masters = append(masters, m)
		}
		engine, err := redlock.Open(engineOptions(masters))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { engine.Close(context.Background()) })
		srv := serve(t, func(o *Options) { o.Engine = engine })
		c := srv.dial()
		const problem = ",copied_locks=0,copied_percent=0,from=,problem=0 of 2 masters that could give it its locks are there"
		eventually(t, "all are learners, and INFO says why they get nothing", func() bool { return strings.HasSuffix(c.info("masters")["learner2"], problem) })
		srv.again()
		wants(t, srv.visit(visit{path: "/"}).Body.String(), []string{"0 of 3 masters have a vote"}, []string{"Nothing is copied"})
	})
}

func TestWhatIsSaidOfALearner(t *testing.T) {
	for name, c := range map[string]struct {
		copying *redlock.Copying
		info    string // what follows left_s
		metric  []float64
	}{
		"nothing is known":  {nil, "copied_locks=0,copied_percent=0,from=,problem=", []float64{0, 0, 0}},
		"it is given locks": {&redlock.Copying{From: "m1,m2", Given: 41200, Percent: 63}, "copied_locks=41200,copied_percent=63,from=m1;m2,problem=", []float64{1, 41200, 0.63}},
		"too few remember": {&redlock.Copying{Problem: "1 of 2 masters that could give it its locks are there: m1, a=b cannot"},
			"copied_locks=0,copied_percent=0,from=,problem=1 of 2 masters that could give it its locks are there: m1; a~b cannot", []float64{0, 0, 0}},
	} {
		s := redlock.Seat{Name: "m3", Addr: "c:1/2", State: redlock.SeatLearner, Left: 59900 * time.Millisecond, Copying: c.copying}
		if got, want := infoLearner(s), "seat=m3,addr=c:1/2,left_s=59,"+c.info; got != want {
			t.Errorf("%s: INFO: got %q, want %q", name, got, want)
		}
		r := &reading{Reading: &status.Reading{Membership: redlock.Membership{Seats: []redlock.Seat{{Name: "m1", State: redlock.SeatVoter, Copying: c.copying}, s}}}}
		var got []float64
		for i := range metricTable {
			if metricTable[i].desc != nil && strings.Contains(metricTable[i].desc.String(), `"redlockd_learner_`) {
				metricTable[i].read(r, func(value float64, labels ...string) {
					got = append(got, value)
					if len(labels) != 1 || labels[0] != "c:1" { // as redlockd_master_state has it
						t.Errorf("%s: got a metric with the labels %q, want the address of the learner", name, labels)
					}
				})
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.metric) {
			t.Errorf("%s: got the metrics %v, want %v", name, got, c.metric)
		}
	}
}
