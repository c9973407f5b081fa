package memmaster

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestDefaultClientOptions(t *testing.T) {
	// HELLO 3, CLIENT SETINFO, CLIENT MAINT_NOTIFICATIONS, two pools: whatever go-redis does by default. It goes on with RESP2. (Not
	// in a bubble: to choose its notifications it looks up a host name, which no bubble survives.)
	m := newMaster(t, Options{})
	c := redis.NewClient(&redis.Options{Dialer: m.Dial})
	defer c.Close()
	ctx := t.Context()
	if err := c.Set(ctx, "a", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get(ctx, "a").Result(); err != nil || got != "1" {
		t.Errorf("GET: got %q, %v", got, err)
	}
	s := c.Subscribe(ctx, "x")
	defer s.Close()
	if _, err := s.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Publish(ctx, "x", "hello").Result(); n != 1 || err != nil {
		t.Errorf("PUBLISH: got %d, %v, want 1", n, err)
	}
	if message, err := s.ReceiveMessage(ctx); err != nil || message.Payload != "hello" {
		t.Errorf("message: got %v, %v, want hello", message, err)
	}
}
