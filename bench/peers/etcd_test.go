package peers

// The control of scenarios_test.go: etcd's own lock, a consensus that syncs its log before it answers, under the same kind of faults.
// Three etcd processes. Client A locks with a lease of 3 s, harm is done, and client B waits for the same lock. Two holders: B got it before
// A's lease ends, counted from when A sent for it. One holder: B got it then. The clients speak to etcd as its JSON gateway has them.
//
// A step of the wall clock is not among the faults: the shim of the other scenarios does not reach Go programs, which ask the kernel for the
// time without libc, and etcd's leases count on the monotonic clock.

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// etcdRow is one fault. Nodes are numbered from 0.
type etcdRow struct {
	name   string
	behind bool             // the last node is down while A locks, and comes back after the harm
	lock   func(*etcdFault) // how A locks; nil: at the leader
	harm   func(*etcdFault)
}

var etcdRows = []etcdRow{
	{name: "no fault"},
	{name: "holder reached 2 of 3, one of them is killed and restarts with its data", behind: true, harm: (*etcdFault).restartFollower},
	{name: "holder reached 2 of 3, the leader is killed and restarts with its data", behind: true, harm: (*etcdFault).restartLeader},
	{name: "all three are killed at once and restart with their data", harm: (*etcdFault).restartAll},
	{name: "all three restart, one after another, within one TTL", harm: (*etcdFault).rollingRestart},
	{name: "the leader freezes, another one is elected, and it thaws", harm: (*etcdFault).freezeLeader},
	{name: "LOCK is sent again through a second node, the first one hears of both late", lock: (*etcdFault).lockAgain},
	{name: "holder reached 2 of 3, the leader restarts without its data, which etcd forbids", behind: true, harm: (*etcdFault).forgetfulLeader},
}

// etcdFault is one trial.
type etcdFault struct {
	*testing.T
	etcdRow
	nodes  []*etcdNode
	leader int       // which node B asks first, too
	until  time.Time // when A's lease ends
}

func TestEtcdPeerScenarios(t *testing.T) {
	trials, _ := strconv.Atoi(os.Getenv("REDLOCK_PEERS"))
	if trials == 0 {
		redisproc.Skip(t, "a benchmark: REDLOCK_PEERS is the number of trials")
	}
	if _, err := exec.LookPath("etcd"); err != nil {
		redisproc.Skip(t, "etcd (Debian's package etcd-server) is not installed: there is no control")
	}
	var rows []string
	for _, row := range etcdRows {
		rows = append(rows, row.name)
	}
	table := newScoreTable(rows, []string{"etcd"})
	slots := make(chan struct{}, stages/2)
	var wg sync.WaitGroup
	for i, row := range etcdRows {
		for range trials {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				t.Run(row.name, func(t *testing.T) {
					table.add(i, 0, (&etcdFault{T: t, etcdRow: row}).trial())
				})
			})
		}
	}
	wg.Wait()
	t.Logf("two holders, in so many leases\n\n%s", table)
}

func (f *etcdFault) trial() trialResult {
	f.start()
	f.leader = f.findLeader()
	if f.behind {
		if f.leader == 2 {
			f.nodes[0], f.nodes[2] = f.nodes[2], f.nodes[0]
			f.leader = 0
		}
		f.nodes[2].kill()
	}
	if f.lock == nil {
		f.lock = (*etcdFault).lockAtLeader
	}
	f.lock(f)
	if f.harm != nil {
		f.harm(f)
	}
	if f.behind {
		f.nodes[2].run(f.T)
	}
	if time.Until(f.until) <= 0 {
		f.Log("the harm took longer than the lease")
		return notPossible
	}
	ctx, cancel := context.WithDeadline(f.Context(), f.until.Add(20*time.Second))
	defer cancel()
	lease := f.grant(ctx, 60)
	f.lockAnywhere(ctx, lease)
	switch {
	case ctx.Err() != nil:
		f.Log("B never got the lock")
		return noLock
	case time.Until(f.until) > 0:
		return twoHolders
	}
	return oneHolder
}

// lockAtLeader has A ask for a lease and for the lock.
func (f *etcdFault) lockAtLeader() {
	lease := f.leaseOfA()
	if err := f.nodes[f.leader].lock(f.Context(), lease); err != nil {
		f.Fatalf("A locks: %v", err)
	}
}

func (f *etcdFault) leaseOfA() string {
	sent := time.Now()
	lease := f.grant(f.Context(), int(peerTTL.Seconds()))
	f.until = sent.Add(peerTTL)
	return lease
}

// lockAgain has A ask a node that is frozen, and another one when it has no answer. The first one then does what it was asked.
func (f *etcdFault) lockAgain() {
	first := (f.leader + 1) % len(f.nodes)
	lease := f.leaseOfA()
	f.freeze(first)
	brief, cancel := context.WithTimeout(f.Context(), 300*time.Millisecond)
	defer cancel()
	if err := f.nodes[first].lock(brief, lease); err == nil {
		f.Fatal("a frozen node answered")
	}
	if err := f.nodes[f.leader].lock(f.Context(), lease); err != nil {
		f.Fatalf("A locks at the second node: %v", err)
	}
	f.thaw(first)
}

func (f *etcdFault) restart(n int) {
	f.nodes[n].kill()
	f.nodes[n].run(f.T)
}

func (f *etcdFault) restartFollower() { f.restart(1 - f.leader) }
func (f *etcdFault) restartLeader()   { f.restart(f.leader) }

func (f *etcdFault) restartAll() {
	for _, n := range f.nodes {
		n.kill()
	}
	for _, n := range f.nodes {
		n.run(f.T)
	}
}

func (f *etcdFault) rollingRestart() {
	for i := range f.nodes {
		f.restart(i)
		time.Sleep(400 * time.Millisecond)
	}
}

// freezeLeader has B ask the old leader first, which does not know yet that it leads no more.
func (f *etcdFault) freezeLeader() {
	f.freeze(f.leader)
	f.findLeader(f.leader)
	f.thaw(f.leader)
}

// forgetfulLeader has the leader come back without its data, beside a node that has not got A's lock yet.
func (f *etcdFault) forgetfulLeader() {
	f.nodes[f.leader].kill()
	if err := os.RemoveAll(f.nodes[f.leader].dir); err != nil {
		f.Fatal(err)
	}
	f.nodes[f.leader].run(f.T)
}

// start runs three nodes that know each other.
func (f *etcdFault) start() {
	f.Helper()
	var members []string
	for i := range 3 {
		n := &etcdNode{name: fmt.Sprint("n", i), dir: filepath.Join(f.TempDir(), "data"), client: redisproc.KeepAddr(f.T), peer: redisproc.KeepAddr(f.T)}
		f.nodes = append(f.nodes, n)
		members = append(members, n.name+"=http://"+n.peer)
	}
	for _, n := range f.nodes {
		n.members = strings.Join(members, ",")
		n.run(f.T)
		f.Cleanup(n.kill)
	}
}

// findLeader returns which node leads. Those that are frozen are not asked.
func (f *etcdFault) findLeader(frozen ...int) (leader int) {
	f.Helper()
	until(f.T, "leader", func() error {
		for i, n := range f.nodes {
			if slices.Contains(frozen, i) {
				continue
			}
			if leads, err := n.leads(f.Context()); err == nil && leads {
				leader = i
				return nil
			}
		}
		return errors.New("none")
	})
	return leader
}

func (f *etcdFault) freeze(n int) { f.signal(n, syscall.SIGSTOP) }
func (f *etcdFault) thaw(n int)   { f.signal(n, syscall.SIGCONT) }

func (f *etcdFault) signal(n int, s syscall.Signal) {
	f.Helper()
	if err := f.nodes[n].process.Process.Signal(s); err != nil {
		f.Fatal(err)
	}
}

// grant returns a new lease, from whichever node has one.
func (f *etcdFault) grant(ctx context.Context, seconds int) (id string) {
	f.anyNode(ctx, func(ctx context.Context, n *etcdNode) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		var reply struct{ ID string }
		err := n.ask(ctx, "lease/grant", map[string]any{"TTL": seconds}, &reply)
		id = reply.ID
		return err
	})
	return id
}

// lockAnywhere waits for the lock, at one node after the other: a node that fails or hangs is left after a while. The place in etcd's
// queue is that of the lease, at whichever node one asks.
func (f *etcdFault) lockAnywhere(ctx context.Context, lease string) {
	f.anyNode(ctx, func(ctx context.Context, n *etcdNode) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return n.lock(ctx, lease)
	})
}

// anyNode does it at one node after the other until it is done.
func (f *etcdFault) anyNode(ctx context.Context, do func(context.Context, *etcdNode) error) {
	for i := f.leader; ctx.Err() == nil; i++ {
		if err := do(ctx, f.nodes[i%len(f.nodes)]); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// etcdNode is one process.
type etcdNode struct {
	name, dir    string
	client, peer string // addresses
	members      string
	process      *exec.Cmd
}

func (n *etcdNode) run(t *testing.T) {
	t.Helper()
	n.process = exec.Command("etcd", "--name", n.name, "--data-dir", n.dir, "--log-level", "panic",
		"--listen-client-urls", "http://"+n.client, "--advertise-client-urls", "http://"+n.client,
		"--listen-peer-urls", "http://"+n.peer, "--initial-advertise-peer-urls", "http://"+n.peer,
		"--initial-cluster", n.members, "--initial-cluster-state", "new")
	n.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.process.Start(); err != nil {
		t.Fatal(err)
	}
}

func (n *etcdNode) kill() {
	n.process.Process.Kill()
	n.process.Wait()
}

func (n *etcdNode) leads(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	var reply struct {
		Leader string
		Header struct {
			MemberID string `json:"member_id"`
		}
	}
	err := n.ask(ctx, "maintenance/status", map[string]any{}, &reply)
	return reply.Leader != "" && reply.Leader == reply.Header.MemberID, err
}

// lock waits until the lease has the lock.
func (n *etcdNode) lock(ctx context.Context, lease string) error {
	name := base64.StdEncoding.EncodeToString([]byte(peerResource))
	return n.ask(ctx, "lock/lock", map[string]any{"name": name, "lease": lease}, new(struct{}))
}

// ask sends a request to etcd's JSON gateway.
func (n *etcdNode) ask(ctx context.Context, what string, request, reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.client+"/v3/"+what, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(post)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", what, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(reply)
}
