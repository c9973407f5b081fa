package client

import (
	"fmt"

	"redlockd/cmd/redlockd/cli"
)

var Reload = cli.Command{Name: "reload", Summary: "have a redlockd that runs read its settings again", Audience: cli.ForClient, Run: runReload,
	Flags: []cli.Flag{timeoutFlag(clientTimeout)},
	Help: `Usage: redlockd reload [flags]

Has a redlockd that runs read its settings again (CONFIG RELOAD), as SIGHUP does, and prints what has changed. It takes over all of the
file or, if anything is wrong with it, nothing. A file that has lost its last user is refused: taking away the last login needs a restart.
The beginning of config.toml says which other settings need one.

Without --server it asks the redlockd of the same settings, on this machine. The user who logs in must be an administrator (admin in
[auth]).

Exit codes: 0 the settings of the file are in force; 1 they are not (the message says why), or the server refuses or does not answer;
2 the command line or the configuration is wrong.
`}

// runReload has a server read its settings again.
func runReload(c *cli.Call) error {
	return withServer(c, func(server *connection) error {
		v, err := server.do("CONFIG", "RELOAD")
		if err == nil {
			fmt.Fprintln(c.Stdout, v.Text)
		}
		return err
	})
}
