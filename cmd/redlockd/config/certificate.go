package config

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"redlockd/proxy"
)

// renewable is what was read from files in PEM form that are replaced while redlockd runs: certificates live for weeks, servers for
// longer. Handshakes ask get for it, and get never waits for a file: a file system that hangs (NFS) must not hang them. One goroutine
// at a time reads the files of one renewable. Nobody waits for that goroutine, because a read that hangs cannot be ended.
type renewable[T any] struct {
	files []string
	read  func() (*T, error)
	// lifetime tells from when to when it holds; nil: nobody wants to know.
	lifetime func(*T) (from, to time.Time)
	log      *slog.Logger // set before the first get

	current atomic.Pointer[T]

	mu     sync.Mutex    // held by the one who looks, as long as that takes; guards all below
	looked time.Time     // when the files were looked at last
	seen   []os.FileInfo // what they were when they were read last; nil: they could not be read, and are tried again
	fault  string        // why not, as it was told last
	warned time.Time     // of the end, last
}

const (
	// lookEvery is how often the files are looked at, at most.
	lookEvery = 2 * time.Second
	// warnEvery is how often a certificate that ends soon is worth a line.
	warnEvery = 24 * time.Hour
)

// newRenewable reads the files for the first time.
func newRenewable[T any](read func() (*T, error), lifetime func(*T) (from, to time.Time), files ...string) (*renewable[T], error) {
	r := &renewable[T]{files: files, read: read, lifetime: lifetime, log: slog.New(slog.DiscardHandler), seen: statAll(files)}
	v, err := read()
	if err != nil {
		return nil, err
	}
	r.current.Store(v)
	r.looked = time.Now()
	r.warned = r.looked // by the caller
	return r, nil
}

// get returns what the files held when they could be read last, and has them looked at for the next call. Any goroutine may call it.
func (r *renewable[T]) get() *T {
	if r.mu.TryLock() {
		if now := time.Now(); now.Sub(r.looked) < lookEvery {
			r.mu.Unlock()
		} else {
			r.looked = now
			go func() {
				defer r.mu.Unlock()
				r.lookLocked(now)
			}()
		}
	}
	return r.current.Load()
}

func (r *renewable[T]) lookLocked(now time.Time) {
	// Looked at before they are read: what changes in between is seen the next time.
	if seen := statAll(r.files); seen == nil || !slices.EqualFunc(seen, r.seen, sameFile) {
		r.readAgainLocked(seen)
	}
	if r.lifetime == nil || !r.warned.IsZero() && now.Sub(r.warned) < warnEvery {
		return
	}
	if warning := r.endsSoon(now); warning != "" {
		r.warned = now
		r.log.Warn(warning)
	}
}

// readAgainLocked takes what the files hold now, if it is whole. Files are replaced one after another, so for a moment a certificate
// and a key need not belong together.
func (r *renewable[T]) readAgainLocked(seen []os.FileInfo) {
	v, err := r.read()
	if err != nil {
		r.seen = nil
		if r.fault != err.Error() {
			r.fault = err.Error()
			r.log.Warn("files of TLS were replaced and cannot be used: what they held before stays in use", "reason", r.fault,
				"to_do", "put a certificate and its key there that belong together: they are taken by themselves")
		}
		return
	}
	r.seen, r.fault, r.warned = seen, "", time.Time{}
	r.current.Store(v)
	attrs := []any{"files", strings.Join(r.files, " ")}
	if r.lifetime != nil {
		_, to := r.lifetime(v)
		attrs = append(attrs, "not_after", to)
	}
	r.log.Info("files of TLS were replaced: what they hold now is in use", attrs...)
}

// endsSoon is a warning, or nothing if there is time yet. What renews certificates does it when a third of their time is left, or
// when a month is: with less than a fifth left, and less than two weeks, it was not done.
func (r *renewable[T]) endsSoon(now time.Time) string {
	from, to := r.lifetime(r.current.Load())
	left, date := to.Sub(now), to.UTC().Format("2006-01-02 15:04 MST")
	switch {
	case left <= 0:
		return fmt.Sprintf("the certificate %s has ended on %s: clients that check it refuse it; renew it", r.files[0], date)
	case left < min(to.Sub(from)/5, 14*24*time.Hour):
		return fmt.Sprintf("the certificate %s ends on %s, in %s: renew it", r.files[0], date, left.Round(time.Minute))
	}
	return ""
}

// statAll is nil when one of the files is missing. Links are followed: Kubernetes replaces secrets by turning one.
func statAll(files []string) []os.FileInfo {
	var all []os.FileInfo
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			return nil
		}
		all = append(all, info)
	}
	return all
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// keyPair reads a certificate and its key; without either file it is nil. Who names the same files gets the same.
func (c *Config) keyPair(cert, key string) (*renewable[tls.Certificate], error) {
	switch {
	case cert == "" && key == "":
		return nil, nil
	case key == "":
		return nil, &partError{"tls_cert", errors.New("tls_key is missing: they belong together")}
	case cert == "":
		return nil, &partError{"tls_key", errors.New("tls_cert is missing: they belong together")}
	}
	for _, pair := range c.keyPairs {
		if slices.Equal(pair.files, []string{cert, key}) {
			return pair, nil
		}
	}
	read := func() (*tls.Certificate, error) {
		certText, err := readPEM(cert)
		if err != nil {
			return nil, &partError{"tls_cert", err}
		}
		keyText, err := readPEM(key)
		if err != nil {
			return nil, &partError{"tls_key", err}
		}
		pair, err := tls.X509KeyPair(certText, keyText)
		if err != nil {
			return nil, &partError{"tls_cert", fmt.Errorf("%s with tls_key %s: %w", cert, key, err)}
		}
		return &pair, nil
	}
	pair, err := newRenewable(read, lifetimeOf, cert, key)
	if err == nil {
		c.keyPairs = append(c.keyPairs, pair)
	}
	return pair, err
}

func lifetimeOf(pair *tls.Certificate) (from, to time.Time) {
	return pair.Leaf.NotBefore, pair.Leaf.NotAfter
}

// authorities reads the certificates of a file, which is to hold one at least.
func (c *Config) authorities(path string) (*renewable[x509.CertPool], error) {
	r, err := newRenewable(func() (*x509.CertPool, error) { return readAuthorities(path) }, nil, path)
	if err == nil {
		c.pools = append(c.pools, r)
	}
	return r, err
}

// pemMax bounds a file of certificates: those of all authorities of the system have some 200 KB.
const pemMax = 1 << 20

// readPEM reads a file of certificates or keys. Only a regular file can be read again when it has been replaced; a FIFO or a terminal
// would also wait for somebody to write.
func readPEM(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // so that opening a FIFO does not wait either
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, fmt.Errorf("%s is no regular file", path))
	}
	text, err := io.ReadAll(io.LimitReader(f, pemMax+1))
	if err == nil && len(text) > pemMax {
		err = fmt.Errorf("%s has more than %d bytes, the most for a file of certificates or keys", path, pemMax)
	}
	return text, err
}

func readAuthorities(path string) (*x509.CertPool, error) {
	text, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", path)
	}
	return pool, nil
}

// WatchFiles has the files looked at also while nobody connects, until ctx ends: the first who connects after weeks must not be shown a
// certificate that has ended.
func (c *Config) WatchFiles(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, pair := range c.keyPairs {
				pair.get()
			}
			for _, pool := range c.pools {
				pool.get()
			}
		}
	}
}

// LogTo tells the log from now on when files were replaced.
func (c *Config) LogTo(log *slog.Logger) {
	for _, pair := range c.keyPairs {
		pair.log = log
	}
	for _, pool := range c.pools {
		pool.log = log
	}
}

// Certificates are those in use, for the metrics, each file once.
func (c *Config) Certificates() []proxy.Certificate {
	var all []proxy.Certificate
	for _, pair := range c.keyPairs {
		file := pair.files[0]
		if !slices.ContainsFunc(all, func(c proxy.Certificate) bool { return c.File == file }) {
			_, to := lifetimeOf(pair.get())
			all = append(all, proxy.Certificate{File: file, NotAfter: to})
		}
	}
	return all
}
