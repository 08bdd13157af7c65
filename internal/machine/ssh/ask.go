package ssh

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"iotax"
	"iotax/internal/machine/internal/proc"
)

// asks selects who answers ssh's questions, such as the one for a password.
type asks int

const (
	asksNobody asks = iota // ssh must not ask
	asksIotax              // iotax supplies the password from the environment or a file
	asksUser               // the user answers at the terminal, or the program in SSH_ASKPASS does
)

const (
	// passwordVariable is the environment variable that may contain the password. It keeps the password out of plans
	// and command lines, which reports show and other users can read.
	passwordVariable = "IOTAX_SSH_PASSWORD"

	// When ssh starts iotax to answer a question, these variables contain the login that the password is for, the
	// password file, and the user's terminal.
	loginVariable    = "IOTAX_ASKPASS_LOGIN"
	fileVariable     = "IOTAX_ASKPASS_FILE"
	terminalVariable = "IOTAX_ASKPASS_TERMINAL"
)

// windowsInput is the name of the console's input device on Windows.
const windowsInput = "CONIN$"

// answers returns who answers ssh's questions, and variables to add to the environment of ssh. ssh has no controlling
// terminal, so that only iotax gets the signals of the user's terminal. Therefore, ssh asks through the program in
// SSH_ASKPASS.
func (s *Spec) answers() (asks, []string, error) {
	given, err := password(s.PasswordFile)
	if err != nil {
		return 0, nil, err
	}
	terminal := terminalPath()
	own := os.Getenv("SSH_ASKPASS")
	required := os.Getenv("SSH_ASKPASS_REQUIRE")
	if given == "" && own != "" && (terminal == "" || required == "prefer" || required == "force") {
		return asksUser, nil, nil
	}
	if given == "" && terminal == "" {
		return asksNobody, nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return 0, nil, err
	}
	// Versions of OpenSSH before 8.4 ignore SSH_ASKPASS_REQUIRE. They run the program in SSH_ASKPASS if DISPLAY is set
	// and ssh has no terminal.
	env := []string{"SSH_ASKPASS=" + self, "SSH_ASKPASS_REQUIRE=force", "DISPLAY=" + cmp.Or(os.Getenv("DISPLAY"), ":0"),
		terminalVariable + "=" + terminal}
	switch {
	case given == "":
		return asksUser, env, nil
	case s.PasswordFile != "":
		path, err := filepath.Abs(homePath(s.PasswordFile))
		return asksIotax, append(env, fileVariable+"="+path), err
	}
	return asksIotax, append(env, passwordVariable+"="+given), nil
}

// password returns the first line of the named file. If file is "", it returns the value of passwordVariable, which may
// also be "". Its errors do not contain the password.
func password(file string) (string, error) {
	if file == "" {
		return os.Getenv(passwordVariable), nil
	}
	src, err := iotax.ReadFile(homePath(file), iotax.MaxOutput)
	if err != nil {
		return "", &iotax.Error{Op: "read password file", On: file, Err: errors.New(proc.Reason(err)),
			Hint: "put the password on its first line, readable by you alone"}
	}
	line, _, _ := strings.Cut(string(src), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" {
		return "", &iotax.Error{Op: "read password file", On: file, Err: errors.New("its first line is empty"),
			Hint: "put the password there"}
	}
	return line, nil
}

// Askpass prints the answer and exits if ssh started this program to ask a question. Without an answer, the exit status
// is 1. If ssh did not start this program, Askpass returns.
func Askpass() {
	terminal, ok := os.LookupEnv(terminalVariable)
	if !ok || len(os.Args) != 2 {
		return
	}
	question := os.Args[1]
	answer, err := "", errors.New("no terminal")
	login := os.Getenv(loginVariable)
	switch {
	// ssh may also ask for the password of a jump host or the passphrase of a key. The target's password must not be
	// the answer to these questions.
	case login != "" && isPasswordOf(question, login):
		answer, err = password(os.Getenv(fileVariable))
	case terminal != "":
		answer, err = askAt(terminal, question)
	}
	if err != nil {
		os.Exit(1)
	}
	fmt.Println(answer)
	os.Exit(0)
}

// isPasswordOf reports whether a question of ssh is about the password of login (user@host). Such a question begins
// with the login, or with the login in parentheses if the server wrote the question. The question of a jump host may
// contain this login elsewhere.
func isPasswordOf(question, login string) bool {
	return strings.HasPrefix(question, login+"'s password") ||
		strings.HasPrefix(question, "("+login+") ") && strings.Contains(strings.ToLower(question), "password")
}

// askAt asks the user at the terminal. It echoes only answers to yes/no questions and confirmations.
func askAt(terminal, question string) (string, error) {
	f, err := os.OpenFile(terminal, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	out := f
	if terminal == windowsInput {
		if out, err = os.OpenFile("CONOUT$", os.O_RDWR, 0); err != nil {
			return "", err
		}
		defer out.Close()
	}
	kind := os.Getenv("SSH_ASKPASS_PROMPT")
	fmt.Fprint(out, question)
	if kind == "none" { // a notice: for example, a security key waits for a touch
		fmt.Fprintln(out)
		return "", nil
	}
	if kind != "confirm" && !strings.Contains(question, "yes/no") {
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(out)
		return string(b), err
	}
	line, err := bufio.NewReader(f).ReadString('\n')
	line = strings.TrimSpace(line)
	if err == nil && kind == "confirm" && line != "yes" && line != "y" {
		err = errors.New("refused")
	}
	return line, err
}
