package fleet

import (
	"net"
	"sync"
	"testing"
)

// The status page asks the others before this redlockd listens to clients, if it is early: with no name by then, and with that of later.
func TestAsksWhileItBeginsToListen(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	f := New(Host{Mailbox: "00112233445566cc", Publish: func(payload string) {
		mu.Lock()
		defer mu.Unlock()
		m, err := parseMessage(payload)
		if err != nil {
			t.Error(err)
		}
		sent = append(sent, m.Name)
	}})
	var asking sync.WaitGroup
	asking.Go(func() { f.publish(message{Kind: kindHello}) })
	f.Listens(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 6379})
	asking.Wait()
	f.publish(message{Kind: kindHello})
	if len(sent) != 2 || sent[1] != "192.0.2.7:6379" {
		t.Errorf("told the names %q, want that of where it listens last", sent)
	}
}
