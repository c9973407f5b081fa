package client

import (
	"errors"
	"fmt"
	"strings"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
)

var Reload = cli.Command{Name: "reload", Summary: "have a redlockd that runs read its settings again", Audience: cli.ForClient, Run: runReload,
	Flags: []cli.Flag{timeoutFlag(clientTimeout)},
	Help: `Usage: redlockd reload [flags]

Has a redlockd that runs read its settings again (CONFIG RELOAD), as SIGHUP does, and prints what has changed. If anything is wrong with
the file, it takes over nothing. A file that has lost its last user is refused: taking away the last login needs a restart. Otherwise it
names the settings whose new values are not in force, because they need a restart, or because the membership of the masters has the say.

Without --server it asks the redlockd of the same settings, on this machine. The user who logs in must be an administrator (admin in
[auth]). If you have changed its password in the file, the server does not know it yet: send SIGHUP instead.

Exit codes: 0 the settings of the file are in force; 1 they are not, or not known; 2 the command line or the configuration is wrong.
`}

// runReload has a server read its settings again.
func runReload(c *cli.Call) error {
	err := withServer(c, func(server *Connection) error {
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
