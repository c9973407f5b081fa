package config

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// renewed is what was read from files in PEM form that are replaced while redlockd runs: certificates live for weeks, servers for
// longer.
type renewed[T any] struct {
	files []string
	read  func() (*T, error)
	// lifetime tells from when to when it holds; nil: nobody wants to know.
	lifetime func(*T) (from, to time.Time)

	current atomic.Pointer[T]

	// All below belong to the goroutine that looks at the files.
	seen   []os.FileInfo // what the files were when they were read last; nil: they could not be read, and are tried again
	fault  string        // why they could not, as the log has it
	warned time.Time     // when the log was last told that the certificate ends soon
}

const (
	// lookEvery is the pause between two looks at the files.
	lookEvery = 2 * time.Second
	// warnEvery is how often the log is told that a certificate ends soon.
	warnEvery = 24 * time.Hour
)

// newRenewed reads the files for the first time, and has WatchFiles look at them.
func newRenewed[T any](c *Config, read func() (*T, error), lifetime func(*T) (from, to time.Time), files ...string) (*renewed[T], error) {
	r := &renewed[T]{files: files, read: read, lifetime: lifetime, seen: statAll(files), warned: time.Now()} // the caller warns
	v, err := read()
	if err != nil {
		return nil, err
	}
	r.current.Store(v)
	c.looks = append(c.looks, r.look)
	return r, nil
}

// get returns what the files held when they could be read last. It never waits for a file: a file system that hangs (NFS) must not hang
// handshakes. Any goroutine may call it.
func (r *renewed[T]) get() *T { return r.current.Load() }

// WatchFiles takes the certificates of files that are replaced, until ctx ends. Each set of files has a goroutine, which nobody waits
// for, because a read that hangs cannot be ended.
func (c *Config) WatchFiles(ctx context.Context, log *slog.Logger) {
	for _, look := range c.looks {
		go func() {
			tick := time.NewTicker(lookEvery)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case now := <-tick.C:
					look(log, now)
				}
			}
		}()
	}
}

// look reads the files again if they were replaced, and warns of a certificate that ends soon.
func (r *renewed[T]) look(log *slog.Logger, now time.Time) {
	// Looked at before they are read: what changes in between is seen the next time.
	if seen := statAll(r.files); seen == nil || !slices.EqualFunc(seen, r.seen, sameFile) {
		r.readAgain(log, seen)
	}
	if r.lifetime == nil || now.Sub(r.warned) < warnEvery {
		return
	}
	if warning := r.endsSoon(now); warning != "" {
		r.warned = now
		log.Warn(warning)
	}
}

// readAgain takes what the files hold now, if it is whole. Files are replaced one after another, so for a moment a certificate
// and a key need not belong together.
func (r *renewed[T]) readAgain(log *slog.Logger, seen []os.FileInfo) {
	v, err := r.read()
	if err != nil {
		r.seen = nil
		if r.fault != err.Error() {
			r.fault = err.Error()
			log.Warn("files of TLS were replaced and cannot be used: what they held before stays in use", "reason", r.fault,
				"to_do", "put a certificate and its key there that belong together: redlockd takes them within seconds")
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
	log.Info("files of TLS were replaced: what they hold now is in use", attrs...)
}

// endsSoon is a warning, or nothing if there is time yet. What renews certificates does it when a third of their time is left, or
// when a month is: with less than a fifth left, and less than two weeks, it was not done.
func (r *renewed[T]) endsSoon(now time.Time) string {
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
