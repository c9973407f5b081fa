// Package client has the commands that ask a redlockd that runs, over the Redis protocol, each in its
// file. This file has their connection.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"syscall"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock/resp"
)

// Connection leads to a redlockd that runs, for the commands that ask one: ping, locks, info, top,
// unlock, reload and run. One goroutine uses it, except for Close.
type Connection struct {
	// Timeout is how long each command may take.
	Timeout time.Duration

	to      *config.Endpoint
	conn    net.Conn
	replies resp.ReplyReader
}

// Addr is where the server was reached.
func (c *Connection) Addr() string { return c.to.Addr }

// clientTimeout is how long the commands wait for a connection, and then for each answer, without
// --timeout. LOCKS ALL takes 1 s at most.
const clientTimeout = 5 * time.Second

// timeoutFlag is the flag that all of them have.
func timeoutFlag(standard time.Duration) cli.Flag {
	return cli.Flag{Name: "timeout", Arg: "duration", Usage: fmt.Sprintf("how long to wait for the server: from 10ms to 1m (default %s)", config.FormatDuration(standard))}
}

func timeoutOf(c *cli.Call, standard time.Duration) (time.Duration, error) {
	return c.Duration("timeout", standard, 10*time.Millisecond, time.Minute, "")
}

// servers reads where redlockds run, and how long to wait for one.
func servers(c *cli.Call, standard time.Duration) (to []*config.Endpoint, timeout time.Duration, err error) {
	timeout, err = timeoutOf(c, standard)
	if err == nil {
		to, err = c.Settings.Servers()
	}
	if err != nil {
		return nil, 0, cli.Usage(err)
	}
	c.Warn()
	return to, timeout, nil
}

// withServer has a command talk to a server.
func withServer(c *cli.Call, talk func(server *Connection) error) error {
	to, timeout, err := servers(c, clientTimeout)
	if err != nil {
		return err
	}
	server, err := connectFirst(context.Background(), to, timeout)
	if err == nil {
		defer server.Close()
		err = talk(server)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return nil
}

// Connect connects and logs in. All of it takes no longer than timeout. When ctx ends, so does the
// connection, also under a command that waits for its reply.
func Connect(ctx context.Context, to *config.Endpoint, timeout time.Duration) (*Connection, error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(whole, timeout)
	defer cancel()
	network := "tcp"
	if strings.HasPrefix(to.Addr, "/") {
		network = "unix"
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, to.Addr)
	if err == nil && to.TLS != nil {
		secured := tls.Client(conn, to.TLS)
		if err = secured.HandshakeContext(ctx); err != nil {
			conn.Close()
		}
		conn = secured
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", to.Addr, withHint(to, err))
	}
	c := &Connection{to: to, conn: conn, Timeout: timeout}
	context.AfterFunc(whole, c.Close)
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	if to.Password != "" {
		if _, err := c.exchange("AUTH", cmp.Or(to.Username, "default"), to.Password); err != nil {
			c.Close()
			return nil, fmt.Errorf("log in to %s: %w", to.Addr, withHint(to, err))
		}
	}
	return c, nil
}

// connectFirst is Connect to the first of the servers that can be reached, within timeout in all. The
// error is that of the last one.
func connectFirst(ctx context.Context, to []*config.Endpoint, timeout time.Duration) (c *Connection, err error) {
	for _, server := range to {
		if c, err = Connect(ctx, server, timeout/time.Duration(len(to))); err == nil {
			c.Timeout = timeout
			return c, nil
		}
	}
	return nil, err
}

// withHint says what to look at, where err is why there is no connection, or no answer.
func withHint(to *config.Endpoint, err error) error {
	refused, _ := errors.AsType[ServerError](err)
	dns, _ := errors.AsType[*net.DNSError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, otherName := errors.AsType[x509.HostnameError](err)
	hint := ""
	switch {
	case dns != nil && dns.IsNotFound:
		hint = ": correct the name after --server, or server in [client]"
	case dns != nil:
		hint = ": see the name service of this machine (/etc/resolv.conf)"
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = ": no redlockd listens there; name another with --server"
	case errors.Is(err, context.DeadlineExceeded):
		hint = ": it does not answer"
	case noTLS:
		hint = ": it speaks no TLS there: leave out --tls, or tls in [client]"
	case unknown:
		hint = ": name the file of the authority that signs its certificate with --tls-ca"
	case otherName:
		hint = ": name it so with --server, or set tls_server_name in [client]"
	case strings.HasPrefix(string(refused), "ERR Protocol error: this port speaks TLS"):
		hint = ": say --tls"
	case to.TLS == nil && errors.Is(err, syscall.ECONNRESET):
		hint = ": if it wants TLS, say --tls"
	}
	return fmt.Errorf("%w%s", err, hint)
}

// Close ends the connection, also under a command that waits for its reply.
func (c *Connection) Close() { c.conn.Close() }

// ServerError is an error that the server has replied; it begins with its code.
type ServerError string

func (e ServerError) Error() string { return string(e) }

// Do sends a command and returns its reply. The error is a ServerError if the server has replied one.
func (c *Connection) Do(args ...string) (resp.Value, error) {
	c.conn.SetDeadline(time.Now().Add(c.Timeout))
	v, err := c.exchange(args...)
	if err == nil {
		return v, nil
	}
	if _, replied := errors.AsType[ServerError](err); !replied {
		err = fmt.Errorf("%s does not answer %s: %w", c.to.Addr, args[0], err)
	}
	return v, withHint(c.to, err)
}

func (c *Connection) exchange(args ...string) (resp.Value, error) {
	frame := resp.AppendArray(nil, len(args))
	for _, arg := range args {
		frame = resp.AppendBulkString(frame, arg)
	}
	if _, err := c.conn.Write(frame); err != nil {
		return resp.Value{}, err
	}
	values := valuesMax
	v, err := c.readValue(&values, 0)
	if err == nil && v.Kind == resp.Error {
		err = ServerError(v.Text)
	}
	return v, err
}

// valuesMax bounds the elements of one reply: LOCKS with 10 000 leases has some hundred for each. LOCKS
// bounds its bytes to 4 MB.
const valuesMax = 4 << 20

// readValue reads one reply as a tree. Sizes are bounded by resp, depth and number here.
func (c *Connection) readValue(left *int, depth int) (resp.Value, error) {
	if *left--; *left < 0 || depth > resp.DepthMax {
		return resp.Value{}, errors.New("the reply is larger than any that redlockd sends")
	}
	r, err := c.replies.ReadReply(c.conn)
	switch {
	case err != nil:
		return resp.Value{}, err
	case r.Null:
		return resp.Value{}, nil
	case r.Kind == '+':
		return resp.Value{Kind: resp.Status, Text: string(r.Text)}, nil
	case r.Kind == '-':
		return resp.Value{Kind: resp.Error, Text: string(r.Text)}, nil
	case r.Kind == ':':
		return resp.Value{Kind: resp.Int, Int: r.N}, nil
	case r.Kind == '$':
		return resp.Value{Kind: resp.Bulk, Text: string(r.Text)}, nil
	}
	v := resp.Value{Kind: resp.Array}
	for range r.N {
		e, err := c.readValue(left, depth+1)
		if err != nil {
			return resp.Value{}, err
		}
		v.Elems = append(v.Elems, e)
	}
	return v, nil
}

// IsNull reports whether a reply is null: the server has said no.
func IsNull(v resp.Value) bool { return v.Kind == resp.Nil }

// IsInt reports whether a reply is an integer. The Int of another one is 0, and says nothing.
func IsInt(v resp.Value) bool { return v.Kind == resp.Int }

// Field is the value behind a name in a map, which RESP2 has as an array; null if there is none.
func Field(v resp.Value, name string) resp.Value {
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if v.Elems[i].Text == name {
			return v.Elems[i+1]
		}
	}
	return resp.Value{}
}

// decode fills what JSON would make of a reply: fields bear the names of the reply with _ for -.
func decode(v resp.Value, into reflect.Value) {
	switch into.Kind() {
	case reflect.Struct:
		for i := range into.NumField() {
			name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
			decode(Field(v, strings.ReplaceAll(name, "_", "-")), into.Field(i))
		}
	case reflect.Pointer:
		if v.Kind == resp.Array {
			into.Set(reflect.New(into.Type().Elem()))
			decode(v, into.Elem())
		}
	case reflect.Slice:
		into.Set(reflect.MakeSlice(into.Type(), len(v.Elems), len(v.Elems)))
		for i, e := range v.Elems {
			decode(e, into.Index(i))
		}
	case reflect.String:
		into.SetString(v.Text)
	case reflect.Bool:
		into.SetBool(v.Int == 1)
	default:
		into.SetInt(v.Int)
	}
}

// infoOf reads the fields of INFO, by section in lower case.
func infoOf(text string) map[string]map[string]string {
	sections := make(map[string]map[string]string)
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "# "); ok {
			section = strings.ToLower(name)
			sections[section] = make(map[string]string)
		} else if name, value, ok := strings.Cut(line, ":"); ok && section != "" {
			sections[section][name] = value
		}
	}
	return sections
}
