package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"iotax"
)

// A gate decides who may come in.
type gate struct {
	token   [sha256.Size]byte // hash of it; compared in constant time, whatever a visitor sends
	locked  bool
	hosts   []string // lower case
	cookie  string
	key     []byte        // of sessions; it ends with the process
	logins  chan struct{} // few at a time, so that guessing is slow
	foreign *http.CrossOriginProtection
}

// session is how long a login lasts.
const session = 12 * time.Hour

// penalty is what a wrong token costs in time.
const penalty = 500 * time.Millisecond

func newGate(token string, hosts []string) (gate, error) {
	g := gate{token: sha256.Sum256([]byte(token)), locked: token != "", cookie: "iotax", key: make([]byte, 32), logins: make(chan struct{}, 4), foreign: http.NewCrossOriginProtection()}
	rand.Read(g.key) // never fails, says its documentation
	for _, h := range hosts {
		if h == "" || strings.ContainsAny(h, "/:@ *") {
			return g, &iotax.Error{Op: "serve", On: "--host " + h, Err: fmt.Errorf("this is no name of a host"), Hint: "name it without scheme and port, as in --host bench.example.org"}
		}
		g.hosts = append(g.hosts, strings.ToLower(h))
	}
	return g, nil
}

// known reports whether a Host header is one of ours. A page of someone else that lets its own name point
// here (DNS rebinding) sends that name; an address or localhost cannot be made to point anywhere.
func (g *gate) known(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || slices.Contains(g.hosts, host) {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

func (g *gate) right(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// ticket is the value of a session's cookie: when it ends, and a proof that it was made here.
func (g *gate) ticket(until time.Time) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(b, g.sign(b)...))
}

func (g *gate) sign(b []byte) []byte {
	m := hmac.New(sha256.New, g.key)
	m.Write(b)
	return m.Sum(nil)
}

func (g *gate) valid(ticket string, now time.Time) bool {
	b, err := base64.RawURLEncoding.DecodeString(ticket)
	if err != nil || len(b) != 8+sha256.Size || !hmac.Equal(b[8:], g.sign(b[:8])) {
		return false
	}
	return now.Unix() < int64(binary.BigEndian.Uint64(b))
}

// admits reports whether a request may see anything.
func (g *gate) admits(r *http.Request, now time.Time) bool {
	if !g.locked {
		return true
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return g.right(strings.TrimSpace(token))
	}
	c, err := r.Cookie(g.cookie)
	return err == nil && g.valid(c.Value, now)
}

// policy is what pages of ours may load: what comes from here.
const policy = "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'"

// guard stands before everything.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.gate.known(r.Host) {
			http.Error(w, fmt.Sprintf("iotax does not go by the name %q. Use its address, or start it with --host NAME.", r.Host), http.StatusMisdirectedRequest)
			return
		}
		// A page of another site may link here, but not make a browser load things in the background.
		if site, mode := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode"); (site == "cross-site" || site == "same-site") && mode != "navigate" {
			http.Error(w, "requests of other sites are not answered", http.StatusForbidden)
			return
		}
		if err := s.gate.foreign.Check(r); err != nil {
			http.Error(w, "requests of other sites are not answered", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
		open := r.URL.Path == "/login" || s.statics[r.URL.Path].body != nil
		if open || s.gate.admits(r, s.now()) {
			next.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/api/") || r.Header.Get("Authorization") != "" || !strings.Contains(r.Header.Get("Accept"), "text/html") {
			h.Set("WWW-Authenticate", `Bearer realm="iotax"`)
			if r.Header.Get("Authorization") != "" {
				s.slow(r)
			}
			s.apiError(w, http.StatusUnauthorized, "a token is asked for: Authorization: Bearer TOKEN")
			return
		}
		s.writeLogin(w, r, http.StatusUnauthorized, "", r.URL.RequestURI())
	})
}

// slow takes the time that a wrong token costs.
func (s *Server) slow(r *http.Request) {
	select {
	case s.gate.logins <- struct{}{}:
		defer func() { <-s.gate.logins }()
	case <-r.Context().Done():
		return
	}
	select {
	case <-time.After(penalty):
	case <-r.Context().Done():
	}
}

type loginView struct {
	view
	Wrong string
	To    string
}

func (s *Server) loginForm(w http.ResponseWriter, r *http.Request) {
	if s.gate.admits(r, s.now()) {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	s.writeLogin(w, r, http.StatusOK, "", "/")
}

func (s *Server) writeLogin(w http.ResponseWriter, r *http.Request, status int, wrong, to string) {
	v := s.view(r, "Log in", "")
	v.Locked = false
	s.write(w, r, status, "login.html", loginView{v, wrong, local(to)})
}

// local keeps a redirect inside the server: a path, and not one that a browser takes for a host.
func local(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return to
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.writeLogin(w, r, http.StatusBadRequest, "The form could not be read.", "/")
		return
	}
	to := local(r.PostForm.Get("to"))
	if !s.gate.locked {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	if !s.gate.right(r.PostForm.Get("token")) {
		s.slow(r)
		s.writeLogin(w, r, http.StatusUnauthorized, "That is not the token.", to)
		return
	}
	http.SetCookie(w, s.sessionCookie(r, s.gate.ticket(s.now().Add(session)), int(session.Seconds())))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, s.sessionCookie(r, "", -1))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func (s *Server) sessionCookie(r *http.Request, value string, age int) *http.Cookie {
	// A proxy that speaks TLS says so. Believing it can only make the cookie travel less.
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	return &http.Cookie{Name: s.gate.cookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode}
}
