// Command go_client sends one Mark request and prints the response as it came.
//
// It shares nothing with the Python code: another QUIC stack, another TLS stack, another language. The request is what
// is on standard input, byte for byte.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/quic-go/quic-go"
)

func main() {
	ca := flag.String("ca", "", "PEM file with the roots to trust")
	serverName := flag.String("server-name", "localhost", "name that the certificate has to be for")
	timeout := flag.Duration("timeout", 10*time.Second, "for everything")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: go_client -ca FILE [-server-name NAME] HOST:PORT < request")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	if err := exchange(ctx, flag.Arg(0), *serverName, *ca, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func exchange(ctx context.Context, address, serverName, ca string, request io.Reader, response io.Writer) error {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return errors.New("no certificate in " + ca)
	}
	conn, err := quic.DialAddr(ctx, address, &tls.Config{
		RootCAs:    roots,
		ServerName: serverName,
		NextProtos: []string{"mark"},
		MinVersion: tls.VersionTLS13,
	}, nil)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer conn.CloseWithError(0, "")
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return fmt.Errorf("open stream: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		stream.SetDeadline(deadline)
	}
	if _, err := io.Copy(stream, request); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if err := stream.Close(); err != nil { // FIN: the server answers nothing before it
		return fmt.Errorf("send: %w", err)
	}
	if _, err := io.Copy(response, stream); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	return nil
}
