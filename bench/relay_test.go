package main

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// echo is a server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	return ln.Addr().String()
}

func dialRelay(t *testing.T, roundTrip time.Duration) (*relay, net.Conn) {
	t.Helper()
	r, err := newRelay(echo(t), roundTrip)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return r, conn
}

// Goal: an answer is never earlier than the distance allows, and what is under way does not wait for what is before it.
// Method: 100 messages at once through 20 ms to an echo; one after another they would take 2 s, and that is the only upper
// bound looked at.
func TestRelayDelaysWithoutQueueing(t *testing.T) {
	_, conn := dialRelay(t, 20*time.Millisecond)
	start := time.Now()
	go func() {
		for range 100 {
			conn.Write([]byte("x"))
			time.Sleep(100 * time.Microsecond)
		}
	}()
	got := make([]byte, 1)
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 20*time.Millisecond {
		t.Errorf("the first answer came after %v, want 20ms or more", took)
	}
	if _, err := io.ReadFull(conn, make([]byte, 99)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("100 answers took %v: they waited for one another", took)
	}
}

// Goal: order and content stay, also of more than fits into a read. Method: 1 MB through an echo.
func TestRelayKeepsOrder(t *testing.T) {
	_, conn := dialRelay(t, time.Millisecond)
	want := make([]byte, 1<<20)
	for i := range want {
		want[i] = byte(i * i >> 8)
	}
	go conn.Write(want)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got other bytes than were sent (%v)", err)
	}
}

// Goal: the end of either side reaches the other, and a closed relay leaves nothing running. Method: close each in turn.
func TestRelayEnds(t *testing.T) {
	r, conn := dialRelay(t, time.Millisecond)
	if err := ask(conn, "hello", "hello"); err != nil {
		t.Fatal(err)
	}
	r.close() // returns only when all its goroutines have ended
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the relay is closed and the connection still gives bytes")
	}
	if len(r.conns) != 0 {
		t.Errorf("%d connections are left, want none", len(r.conns))
	}
}

// Goal: redlockd grants locks from masters at a distance, and none faster than a round trip. Method: 5 ms, 200 ms of load.
func TestDistance(t *testing.T) {
	b := builtBench(t)
	b.targets, b.distances, b.distanceRounds, b.distanceDuration = []string{targetRedlockd}, []time.Duration{5 * time.Millisecond}, 1, 200*time.Millisecond
	var r report
	if err := runDistance(t.Context(), b, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Distance) != len(distanceCallers) {
		t.Fatalf("got %d rows, want one per number of callers", len(r.Distance))
	}
	for _, row := range r.Distance {
		if row.PairsPerSec == 0 || row.Failures.Count > 0 || row.LockUs.P50 < 5000 || row.RoundTripUs < 5000 {
			t.Errorf("got %+v, want pairs, no failure, at least 5000 µs per LOCK and PING", row)
		}
	}
}
