package conn

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redlockd/redlock/rawio"
)

// Dial connects to a master; timeout bounds each call. The connection is made here and not by go-redis,
// which would make another one behind our back when this one breaks.
func Dial(ctx context.Context, m Master, timeout time.Duration) (*Conn, error) {
	dial := m.Dialer
	if dial == nil {
		dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return m.dial(ctx)
		}
	}
	socket, err := dial(ctx, m.network(), m.Addr)
	if err != nil {
		return nil, explainDial(err, timeout)
	}
	checked := &checkedConn{Conn: socket}
	// go-redis gets this connection once. When it asks for another one, this one is broken, and the lane
	// has to clear up first.
	used := false
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			if used {
				return nil, errBroken
			}
			used = true
			return checked, nil //mutant:go-redis-reads-unchecked
		},
		Addr: m.Addr, Username: m.Username, Password: m.Password, DB: m.DB,
		Protocol:   2,                       // replies are read without a look for pushed messages
		MaxRetries: -1,                      // a replayed SET NX answers nil although we hold the lock
		PoolSize:   1, PipelinePoolSize: -1, // one ordered connection, not a second pool for pipelines
		DialerRetries: 1, // the lane has a back-off of its own
		DialTimeout:   timeout,
		// Every call brings its deadline in its context.
		ContextTimeoutEnabled:    true,
		ReadTimeout:              timeout,
		WriteTimeout:             timeout,
		PoolTimeout:              timeout,
		ConnMaxIdleTime:          -1,
		ConnMaxLifetime:          -1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return &Conn{Client: client, Redis: client.Conn(), Socket: socket, Wire: Wire{Socket: rawio.New(socket)}, checked: checked, master: m}, nil
}

// network is what kind of address the master has.
func (m Master) network() string {
	if strings.HasPrefix(m.Addr, "/") {
		return "unix"
	}
	return "tcp"
}

// dial makes a connection over the network. A peer that has vanished is noticed within 45 s.
func (m Master) dial(ctx context.Context) (net.Conn, error) {
	socket, err := m.dialPlain(ctx)
	if err != nil || m.TLS == nil {
		return socket, err
	}
	c, err := m.handshake(ctx, socket)
	if err != nil {
		socket.Close()
		return nil, err
	}
	return c, nil
}

func (m Master) dialPlain(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}}
	return d.DialContext(ctx, m.network(), m.Addr)
}

// handshake is that of TLS. A Redis without TLS waits for more of it, and answers nothing: so the last
// quarter of the time is kept for asking without TLS.
func (m Master) handshake(ctx context.Context, socket net.Conn) (net.Conn, error) {
	config := m.TLS
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(m.Addr)
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		within, cancel = context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/4))
	}
	defer cancel()
	c := tls.Client(socket, config)
	err := c.HandshakeContext(within)
	switch {
	case err == nil:
		return c, nil
	case IsTimeout(err) && m.speaksPlain(ctx):
		return nil, &RefusedError{noTLSThere}
	}
	return nil, m.explainTLS(err)
}

// speaksPlain tells whether the master answers a command without TLS.
func (m Master) speaksPlain(ctx context.Context) bool {
	socket, err := m.dialPlain(ctx)
	if err != nil {
		return false
	}
	defer socket.Close()
	defer context.AfterFunc(ctx, func() { socket.Close() })()
	var answer [1]byte
	socket.Write([]byte("PING\r\n"))
	socket.Read(answer[:])
	return answer[0] == '+' || answer[0] == '-'
}

// speaksTLS tells whether the master answers the greeting of TLS, with whatever certificate.
func (m Master) speaksTLS(ctx context.Context) bool {
	if m.Dialer != nil {
		return false
	}
	socket, err := m.dialPlain(ctx)
	if err != nil {
		return false
	}
	defer socket.Close()
	err = tls.Client(socket, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) // nothing is sent to it
	return err == nil || isAlert(err)
}
