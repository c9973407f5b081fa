package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Why there is no connection to a master, in words that name the cause and what mends it. What only a
// setting can mend is a RefusedError, whose reason names the setting; all else is a ConnectError. The
// log, check, members, bootstrap, /readyz and INFO show these texts, so nothing is explained elsewhere.

// ConnectError is why a master cannot be connected to at the moment.
type ConnectError struct {
	// Reason is the cause.
	Reason string
	// Fix is what an operator does about it.
	Fix string
	err error
}

func (e *ConnectError) Error() string { return e.Reason }
func (e *ConnectError) Unwrap() error { return e.err }

// FixOf is what an operator does about an error of connecting; "": the error does not say.
func FixOf(err error) string {
	if e, ok := errors.AsType[*ConnectError](err); ok {
		return e.Fix
	}
	return ""
}

// ofMaster ends a sentence that names a setting of a master.
const ofMaster = " in [master], or in its own [[masters]] table"

// Explain says of an error before the master is ready to be used what an operator can use: without it,
// the reader would see our own deadline.
func Explain(err error) error {
	if _, explained := errors.AsType[*ConnectError](err); !explained && (IsTimeout(err) || errors.Is(err, context.Canceled)) { // who asks has waited for long enough
		return &ConnectError{"no answer while connecting", "see whether it hangs: stopped, out of memory, or busy with a long command (SLOWLOG)", nil}
	}
	return err
}

// explainDial says why the network has made no connection within the timeout.
func explainDial(err error, timeout time.Duration) error {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "dial" || errors.Is(err, context.Canceled) {
		return Explain(err)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		switch asked := strings.TrimSuffix(" on "+dns.Server, " on "); {
		case dns.IsTimeout:
			return &ConnectError{fmt.Sprintf("its name was not answered by the name service within %v: lookup %s%s", timeout, dns.Name, asked),
				"see the name service of this machine (/etc/resolv.conf), or name the master by its IP address", err}
		case dns.IsNotFound:
			return &ConnectError{fmt.Sprintf("its name cannot be resolved: lookup %s%s: %s", dns.Name, asked, dns.Err), "correct the name in the list of masters", err}
		default:
			return &ConnectError{fmt.Sprintf("its name cannot be resolved: lookup %s%s: %s", dns.Name, asked, dns.Err), "see the name service of this machine (/etc/resolv.conf)", err}
		}
	}
	reason, fix := rootCause(err).Error(), "see the network between"
	switch {
	case IsTimeout(err):
		reason, fix = fmt.Sprintf("no answer within %v", timeout), "see whether its machine runs, and whether a firewall swallows the packets"
	case errors.Is(err, syscall.ECONNREFUSED):
		fix = "see whether Redis runs there, and listens on this address (bind and port in its redis.conf)"
	case op.Net == "unix":
		fix = "see unixsocket and unixsocketperm in its redis.conf"
	}
	return &ConnectError{"cannot connect: " + reason, fix, err}
}

// explainTLS says why the handshake of TLS has failed, or what the master has said after it.
func (m Master) explainTLS(err error) error {
	refused := func(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		whose := "of this system"
		if m.TLS.RootCAs != nil {
			whose = "in tls_ca"
		}
		return refused("its certificate is signed by no authority %s: set tls_ca%s, to the file of the authority %s", whose, ofMaster, Sanitize(unknown.Cert.Issuer.String()))
	}
	if name, ok := errors.AsType[x509.HostnameError](err); ok {
		names := slices.Clone(name.Certificate.DNSNames)
		for _, ip := range name.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		if len(names) == 0 {
			return refused("its certificate bears no name (subjectAltName): give the master one for %s", Sanitize(name.Host))
		}
		return refused("its certificate is for %s, and not for %s: name the master so in the list of masters, or set tls_server_name%s",
			Sanitize(strings.Join(names, ", ")), Sanitize(name.Host), ofMaster)
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		if from := invalid.Cert.NotBefore; time.Now().Before(from) {
			return refused("its certificate is valid from %s on: see whether the clock of this machine is right, or give the master another one", from.UTC().Format(time.DateTime+" UTC"))
		}
		return refused("its certificate has expired on %s: give the master a new one", invalid.Cert.NotAfter.UTC().Format(time.DateTime+" UTC"))
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return refused("its certificate is not accepted: %s", Sanitize(rootCause(err).Error()))
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return &RefusedError{noTLSThere}
	}
	if !isAlert(err) {
		return err
	}
	alert := strings.TrimPrefix(rootCause(err).Error(), "tls: ")
	switch shows := m.TLS.GetClientCertificate != nil || len(m.TLS.Certificates) > 0; {
	case !shows && (alert == "certificate required" || alert == "bad certificate"):
		return refused("it demands a certificate (%s): set tls_cert and tls_key%s", alert, ofMaster)
	case !shows && alert == "handshake failure": // before TLS 1.3; it may have another cause
		return refused("it ends the handshake of TLS (%s): if it demands a certificate, set tls_cert and tls_key%s", alert, ofMaster)
	case shows && strings.Contains(alert, "certificate"):
		return refused("it refuses the certificate of redlockd (%s): set tls_cert and tls_key%s, to one of an authority in its tls-ca-cert-file", alert, ofMaster)
	}
	return refused("it ends the handshake of TLS: %s", alert)
}

const (
	noTLSThere = "its port speaks no TLS: set tls = false" + ofMaster + ", or name its port of TLS"
	tlsThere   = "its port speaks TLS: set tls = true" + ofMaster + " (in a URL: rediss://), or name its port without TLS"
)

// explainGreeting says why the master has not answered the first commands on the connection.
// What it has sent may be all that it had to say, for it may have closed the connection after that.
func (m Master) explainGreeting(sent []byte, err error) error {
	first := cmp.Or(firstLine(sent), Sanitize(err.Error()))
	switch {
	case IsRefused(err):
		return err
	case strings.HasPrefix(first, "DENIED "):
		word, _, _ := strings.Cut(first, ". ")
		return &RefusedError{fmt.Sprintf("it admits clients of its own machine only (%s): set requirepass in its redis.conf, and the same as password%s; "+
			"or protected-mode no, if nobody but redlockd can reach it", word, ofMaster)}
	case strings.HasPrefix(first, "ERR max number of clients"):
		return &ConnectError{"it has no room for another connection: " + first, "see who is connected there (CLIENT LIST), or raise maxclients in its redis.conf", err}
	case Replied(err):
		return m.explainLogin(err)
	case IsTimeout(err) || errors.Is(err, context.Canceled):
		return Explain(err)
	case m.TLS != nil:
		if err := m.explainTLS(err); IsRefused(err) {
			return err
		}
	}
	cause := rootCause(err)
	if cause == io.EOF || cause == io.ErrUnexpectedEOF {
		return &ConnectError{"it closes the connection", "see its log, and what answers at this address", err}
	}
	return &ConnectError{"it breaks the connection: " + cause.Error(), "see its log, and what answers at this address", err}
}

// firstLine is the error at the beginning of what the master has sent, without its sign; "": there is
// none.
func firstLine(sent []byte) string {
	line, _, _ := strings.Cut(string(sent), "\r\n")
	text, isError := strings.CutPrefix(line, "-")
	if !isError {
		return ""
	}
	return Sanitize(text)
}

// explainLogin says what to do where a master does not let us in.
func (m Master) explainLogin(err error) error {
	withheld := ""
	if m.withheldFrom != "" {
		withheld = fmt.Sprintf(": its own password was not sent, because the settings have %s at %s: if %s is right, write it into config.toml",
			Sanitize(m.Name), m.withheldFrom, Sanitize(m.Addr))
	}
	switch text := Sanitize(err.Error()); {
	case strings.HasPrefix(text, "NOAUTH"):
		return &RefusedError{"it wants a password: set password" + ofMaster + " (" + text + ")" + withheld}
	case strings.HasPrefix(text, "WRONGPASS"), strings.Contains(text, "invalid password"):
		return &RefusedError{"it refuses the user or the password: correct username and password" + ofMaster + " (" + text + ")" + withheld}
	}
	return err
}
