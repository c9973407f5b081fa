package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
)

var Reload = cli.Command{Name: "reload", Summary: "have a redlockd that runs read its settings again", Audience: cli.ForClient, Run: runReload,
	NoSettings: "socket",
	Flags: []cli.Flag{timeoutFlag(clientTimeout),
		{Name: "socket", Arg: "path", Usage: "ask through reload.sock of a systemd unit, without a password; settings are not read"}},
	Help: `Usage: redlockd reload [flags]

Has a redlockd that runs read its settings again (CONFIG RELOAD), as SIGHUP does, and prints what has changed. If anything is wrong with
the file, it takes over nothing. A file that has lost its last user is refused: taking away the last login needs a restart. Otherwise it
names the settings whose new values are not in force, because they need a restart, or because the membership of the masters has the say.

Without --server it asks the redlockd of the same settings, on this machine. The user who logs in must be an administrator (admin in
[auth]). If you have changed its password in the file, the server does not know it yet: send SIGHUP instead.

systemctl reload redlockd runs it with --socket: the server has made /run/redlockd/reload.sock for root and for its own user, whatever
users, passwords and certificates it wants elsewhere. No other command is taken there.

Exit codes: 0 the settings of the file are in force; 1 they are not, or not known; 2 the command line or the configuration is wrong.
`}

// runReload has a server read its settings again.
func runReload(c *cli.Call) error {
	err := reloadThrough(c, func(server *Connection) error {
		v, err := server.Do("CONFIG", "RELOAD")
		if err != nil {
			return err
		}
		fmt.Fprintln(c.Stdout, v.Text)
		if strings.Contains(v.Text, config.NotInForce) {
			return cli.ExitCode(cli.ExitFailed)
		}
		return nil
	})
	if refusal, _ := errors.AsType[ServerError](err); strings.HasPrefix(string(refusal), "WRONGPASS ") {
		err = fmt.Errorf("%w. If you have changed the password in the file, the server still has the one before: send it SIGHUP (systemctl reload redlockd, or kill -HUP and its pid)", err)
	}
	return err
}

// reloadThrough has a command talk to the server of --socket, or to that of the settings.
func reloadThrough(c *cli.Call, talk func(server *Connection) error) error {
	path, given := c.Given["socket"]
	if !given {
		return withServer(c, talk)
	}
	timeout, err := timeoutOf(c, clientTimeout)
	if err != nil {
		return cli.Usage(err)
	}
	if !filepath.IsAbs(path) {
		return c.Misused("--socket: %q is no absolute path", path)
	}
	server, err := Connect(context.Background(), &config.Endpoint{Addr: path}, timeout)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("reload: %s: no redlockd listens there. One that systemd starts with RuntimeDirectory= does; if it is of an older version, restart it: systemctl restart redlockd", path)
	}
	if err == nil {
		defer server.Close()
		err = talk(server)
	}
	if err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	return nil
}
