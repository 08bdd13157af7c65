package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/kinds"
	"iotax/internal/plan"
	"iotax/internal/store"
	"iotax/internal/terminal"
	"iotax/internal/web"
)

// tokenVariable names the environment variable with the token of iotax serve. --token-file overrides the variable.
const tokenVariable = "IOTAX_TOKEN"

func (a *app) serveCommand() *cobra.Command {
	var listen, tokenFile string
	var hosts []string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Show saved and running runs in a browser",
		Long: `serve is a web server for the store: the history with a search, the report of
each run, comparisons, the trend of a cell with its change points, and runs
while they measure. It changes nothing. Ctrl-C ends it.

Without a token it listens only on a loopback address. A token comes from a file
(--token-file) or from the variable IOTAX_TOKEN, never from the command line. A
visitor logs in with it once; a script sends "Authorization: Bearer TOKEN".`,
		Example: `  iotax serve
  iotax serve --listen 0.0.0.0:8080 --token-file ~/.iotax-token
  iotax serve --host bench.example.org   # behind a proxy of that name`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			token, err := serveToken(tokenFile)
			if err != nil {
				return err
			}
			return a.withStore(c, func(db *store.Store) error { return a.serve(c.Context(), db, listen, token, hosts) })
		},
	}
	f := c.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "HOST:PORT to listen on; port 0 picks a free one")
	f.StringVar(&tokenFile, "token-file", "", "file with the token that visitors must show (default: $"+tokenVariable+")")
	f.StringArrayVar(&hosts, "host", nil, "another host name of this server, for example behind a proxy")
	return c
}

func (a *app) serve(ctx context.Context, db *store.Store, listen, token string, hosts []string) error {
	s, err := web.New(web.Options{Store: db, Version: version(), Token: token, Hosts: append(hosts, hostname()),
		Measure: func(r *iotax.Run) (plan.Measure, error) {
			p, err := kinds.Saved(r)
			if err != nil {
				return plan.Measure{}, err
			}
			return p.Measure, nil
		},
		Log: func(format string, args ...any) {
			fmt.Fprintln(a.err, "iotax: "+terminal.Clean(fmt.Sprintf(format, args...)))
		},
	})
	if err != nil {
		return iotax.Usage(err)
	}
	l, err := web.Listen(ctx, listen, token)
	if err != nil {
		return iotax.Usage(err)
	}
	defer l.Close()
	url := "http://" + l.Addr().String() + "/"
	if host, port, err := net.SplitHostPort(l.Addr().String()); err == nil && net.ParseIP(host).IsUnspecified() {
		url = "http://" + net.JoinHostPort(hostname(), port) + "/"
		fmt.Fprintln(a.err, "iotax: token and results are not encrypted; put a TLS proxy in front on a network that others can read")
	}
	if a.json {
		err = writeJSON(a.out, map[string]string{"url": url, "store": db.String()})
	} else {
		_, err = fmt.Fprintf(a.out, "serving %s at %s (Ctrl-C ends it)\n", db, url)
	}
	if err != nil {
		return err
	}
	mustUndo() // from now on a signal lets current requests finish
	return s.Serve(ctx, l)
}

func hostname() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "localhost"
}

// serveToken returns the token in the file at path. If path is "", it returns the token from the environment, which may
// be "". The file must contain only the token, on one line.
func serveToken(path string) (string, error) {
	if path == "" {
		return strings.TrimSpace(os.Getenv(tokenVariable)), nil
	}
	fail := func(err error, hint string) (string, error) {
		return "", iotax.Usage(&iotax.Error{Op: "read token", On: path, Err: err, Hint: hint})
	}
	b, err := iotax.ReadFile(path, 4<<10)
	if err != nil {
		return fail(iotax.Cause(err), "(umask 077; head -c 24 /dev/urandom | base64 > "+iotax.Quote(path)+")")
	}
	token := strings.TrimSpace(string(b))
	switch {
	case token == "":
		return fail(errors.New("the file is empty"), "head -c 24 /dev/urandom | base64 > "+iotax.Quote(path))
	case strings.ContainsAny(token, "\r\n"):
		return fail(errors.New("the file has more than one line"), "write the token alone into it")
	}
	return token, nil
}
