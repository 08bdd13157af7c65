//go:build linux

// Package storetest starts a private PostgreSQL server for the tests of stores.
package storetest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// A Server is a PostgreSQL server that listens on a socket in its own directory. Stop deletes its data.
type Server struct {
	dir  string
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{}
	next atomic.Int64
}

// Guarded is a database user on every Server. It must log in with Password. Other users need no password.
const (
	Guarded  = "guarded"
	Password = "hunter2-in-the-clear"
)

// Start creates a database cluster and starts its server. If this process is root, the server runs as the user
// postgres, because PostgreSQL refuses to run as root. The server does not sync its data, unless the settings contain
// "fsync=on".
func Start(settings ...string) (_ *Server, err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start PostgreSQL: %w: %s", err, s.out.String()), os.RemoveAll(dir))
		}
	}()
	attr := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			return nil, err
		}
	}
	// Initialize without syncs, because test data need not survive a crash of the machine.
	init := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	init.Dir, init.SysProcAttr, init.Stdout, init.Stderr = dir, attr, &s.out, &s.out
	if err := init.Run(); err != nil {
		return nil, fmt.Errorf("initdb: %w", err)
	}
	hba := "local all " + Guarded + " scram-sha-256\nlocal all all trust\n"
	if err := os.WriteFile(filepath.Join(dir, "data", "pg_hba.conf"), []byte(hba), 0o644); err != nil {
		return nil, err
	}
	s.out.Reset()
	args := []string{"-D", filepath.Join(dir, "data"), "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=40"}
	for _, set := range settings {
		args = append(args, "-c", set)
	}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), args...)
	server := *attr
	server.Pdeathsig = syscall.SIGQUIT
	s.cmd.Dir, s.cmd.SysProcAttr, s.cmd.Stdout, s.cmd.Stderr = dir, &server, &s.out, &s.out
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel sends Pdeathsig when the thread that started the server ends
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait()
			close(s.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	for end := time.Now().Add(2 * time.Minute); ; {
		if err = s.exec("postgres", "CREATE ROLE "+Guarded+" LOGIN PASSWORD '"+Password+"'"); err == nil {
			return s, nil
		}
		select {
		case <-s.done:
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(end) {
			return nil, errors.Join(err, s.Stop())
		}
	}
}

// programs returns the directory of the server programs: the directory of initdb in PATH, or the last such directory
// below /usr/lib/postgresql, which Debian does not include in PATH.
func programs() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errors.New("there is no PostgreSQL server here: scripts/need test installs it")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

func (s *Server) exec(database, query string) error {
	db, err := sql.Open("pgx", s.URL("tester", "", database))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = db.ExecContext(ctx, query)
	return err
}

// URL returns the URL of a database for a user.
func (s *Server) URL(user, password, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(user), Path: "/" + database, RawQuery: url.Values{"host": {s.dir}}.Encode()}
	if password != "" {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

// Socket returns the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// Database creates an empty database in which every user may create a schema, and returns its URL.
func (s *Server) Database() (string, error) {
	name := fmt.Sprintf("test%d", s.next.Add(1))
	err := s.exec("postgres", "CREATE DATABASE "+name)
	if err == nil {
		err = s.exec("postgres", "GRANT CREATE ON DATABASE "+name+" TO PUBLIC")
	}
	return s.URL("tester", "", name), err
}

// Stop ends the server and removes its data.
func (s *Server) Stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGINT) // fast shutdown: the server ends all sessions
	select {
	case <-s.done:
	case <-time.After(30 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.done
	}
	return os.RemoveAll(s.dir)
}
