// Command go_client asks a Mark server and prints what it answers, as it came.
//
// It shares nothing with the Python code: another QUIC stack, another TLS stack, another language. By itself it sends
// the request that is on standard input, byte for byte. With -session it keeps one connection and does what the lines
// on standard input say (session.go).
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/quic-go/quic-go"
)

// keepAlive is short because it is what finds a server again that has lost the way back.
const keepAlive = time.Second

type target struct {
	address *net.UDPAddr
	tls     *tls.Config
	timeout time.Duration
}

func main() {
	ca := flag.String("ca", "", "PEM file with the roots to trust")
	serverName := flag.String("server-name", "localhost", "name that the certificate has to be for")
	alpn := flag.String("alpn", "mark", "application protocol to ask for")
	timeout := flag.Duration("timeout", 10*time.Second, "for each thing that is done")
	session := flag.Bool("session", false, "do what the lines on standard input say")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: go_client -ca FILE [-server-name NAME] HOST:PORT < request")
		os.Exit(2)
	}
	to, err := newTarget(flag.Arg(0), *ca, *serverName, *alpn, *timeout)
	if err == nil && *session {
		err = serve(to, os.Stdin, os.Stdout)
	} else if err == nil {
		err = once(to, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func newTarget(address, ca, serverName, alpn string, timeout time.Duration) (*target, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + ca)
	}
	resolved, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: roots, ServerName: serverName, NextProtos: []string{alpn}, MinVersion: tls.VersionTLS13}
	return &target{resolved, config, timeout}, nil
}

// dial connects from a socket of its own.
func (to *target) dial(ctx context.Context, transport *quic.Transport) (*quic.Conn, error) {
	conn, err := transport.Dial(ctx, to.address, to.tls, &quic.Config{KeepAlivePeriod: keepAlive})
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	return conn, nil
}

// once sends one request and writes its answer.
func once(to *target, request io.Reader, response io.Writer) error {
	data, err := io.ReadAll(request)
	if err != nil {
		return err
	}
	answer, err := to.fresh(data)
	if err != nil {
		return err
	}
	_, err = response.Write(answer)
	return err
}

// fresh asks on a connection of its own.
func (to *target) fresh(request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), to.timeout)
	defer cancel()
	socket, err := newSocket()
	if err != nil {
		return nil, err
	}
	transport := &quic.Transport{Conn: socket}
	defer socket.Close()
	defer transport.Close()
	conn, err := to.dial(ctx, transport)
	if err != nil {
		return nil, err
	}
	defer conn.CloseWithError(0, "")
	return exchange(ctx, conn, request)
}

// exchange sends a request on a stream of its own and reads the answer to its end.
func exchange(ctx context.Context, conn *quic.Conn, request []byte) ([]byte, error) {
	stream, err := open(ctx, conn)
	if err != nil {
		return nil, err
	}
	if _, err := stream.Write(request); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	return finish(stream)
}

func open(ctx context.Context, conn *quic.Conn) (*quic.Stream, error) {
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		stream.SetDeadline(deadline)
	}
	return stream, nil
}

// finish ends the request and reads the answer.
func finish(stream *quic.Stream) ([]byte, error) {
	if err := stream.Close(); err != nil { // FIN: the server answers nothing before it
		return nil, fmt.Errorf("send: %w", err)
	}
	answer, err := io.ReadAll(stream)
	if err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	return answer, nil
}
