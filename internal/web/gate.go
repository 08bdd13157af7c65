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

// A gate decides which requests are accepted.
type gate struct {
	token   [sha256.Size]byte // SHA-256 of the token; compared in constant time
	locked  bool
	hosts   []string // lower case
	cookie  string
	key     []byte        // signs session cookies; random for each server
	logins  chan struct{} // slots for delaying wrong tokens; their number limits the rate of guesses
	foreign *http.CrossOriginProtection
}

// session is the lifetime of a login session.
const session = 12 * time.Hour

// penalty is the delay after a wrong token.
const penalty = 500 * time.Millisecond

func newGate(token string, hosts []string) (gate, error) {
	g := gate{token: sha256.Sum256([]byte(token)), locked: token != "", cookie: "iotax", key: make([]byte, 32), logins: make(chan struct{}, 4), foreign: http.NewCrossOriginProtection()}
	rand.Read(g.key) // never fails
	for _, h := range hosts {
		if h == "" || strings.ContainsAny(h, "/:@ *") {
			return g, &iotax.Error{Op: "serve", On: "--host " + h, Err: fmt.Errorf("this is not a host name"), Hint: "name it without scheme and port, as in --host bench.example.org"}
		}
		g.hosts = append(g.hosts, strings.ToLower(h))
	}
	return g, nil
}

// known reports whether a Host header names this server. This check defends against DNS rebinding, in which an
// attacker's host name resolves to this server. IP addresses and localhost cannot be rebound.
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

// ticket returns the value of a session cookie: its expiry time and a signature.
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

// admits reports whether a request is authorized by a bearer token or a session cookie. If the server has no token,
// every request is authorized.
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

// policy is the content security policy of the server's own pages. It allows only content from this server, and images
// in data: URLs.
const policy = "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'"

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
			http.Error(w, fmt.Sprintf("this server does not have the name %q. Use its address, or start it with --host NAME.", r.Host), http.StatusMisdirectedRequest)
			return
		}
		// Other sites may link here, but their pages may not load resources from this server.
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
			s.apiError(w, http.StatusUnauthorized, "a token is required: Authorization: Bearer TOKEN")
			return
		}
		s.writeLogin(w, r, http.StatusUnauthorized, "", r.URL.RequestURI())
	})
}

// slow delays the response to a wrong token. Only a few requests are delayed at a time, and the others queue.
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

// local returns `to` if it is a path on this server, otherwise "/". It also rejects paths that browsers would treat
// as a host name.
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
	// A TLS proxy sets this header. A forged value can only restrict the cookie.
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	return &http.Cookie{Name: s.gate.cookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode}
}
