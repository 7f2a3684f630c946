package main

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// socket is a UDP socket on loopback whose port can change under a connection, as behind a NAT that forgot it: the
// connection is not told.
type socket struct {
	mu      sync.Mutex
	current *net.UDPConn
	dead    atomic.Bool // nothing comes through any more, either way
}

func newSocket() (*socket, error) {
	current, err := bind()
	if err != nil {
		return nil, err
	}
	return &socket{current: current}, nil
}

func bind() (*net.UDPConn, error) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	conn.SetReadBuffer(4 << 20)
	return conn, nil
}

func (s *socket) now() *net.UDPConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// rebind goes on from another port; what is still sent to the old one is lost.
func (s *socket) rebind() error {
	fresh, err := bind()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Close()
	s.current = fresh
	return nil
}

func (s *socket) port() int {
	return s.now().LocalAddr().(*net.UDPAddr).Port
}

func (s *socket) ReadFrom(data []byte) (int, net.Addr, error) {
	for {
		from := s.now()
		n, sender, err := from.ReadFrom(data)
		if (err != nil && s.now() != from) || (err == nil && s.dead.Load()) {
			continue
		}
		return n, sender, err
	}
}

func (s *socket) WriteTo(data []byte, to net.Addr) (int, error) {
	if s.dead.Load() {
		return len(data), nil
	}
	for {
		through := s.now()
		n, err := through.WriteTo(data, to)
		if err != nil && s.now() != through {
			continue
		}
		return n, err
	}
}

func (s *socket) Close() error                       { return s.now().Close() }
func (s *socket) LocalAddr() net.Addr                { return s.now().LocalAddr() }
func (s *socket) SetDeadline(t time.Time) error      { return s.now().SetDeadline(t) }
func (s *socket) SetReadDeadline(t time.Time) error  { return s.now().SetReadDeadline(t) }
func (s *socket) SetWriteDeadline(t time.Time) error { return s.now().SetWriteDeadline(t) }
