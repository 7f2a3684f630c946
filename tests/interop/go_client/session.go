package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/quic-go/quic-go"
)

// order is a line of standard input: one JSON object. Bytes are base64.
type order struct {
	ID       int      `json:"id"`
	Do       string   `json:"do"`
	Request  []byte   `json:"request"`
	Requests [][]byte `json:"requests"`
	Expected []byte   `json:"expected"` // what each answer of a flood has to end with
	Count    int      `json:"count"`
	Parallel int      `json:"parallel"`
	Change   string   `json:"change"` // rebind or migrate, in the middle of what At says: request or answer
	At       string   `json:"at"`
	Of       int      `json:"of"` // the watch to end
}

// report is a line of standard output. An order is answered by one of them, a watch by many.
type report struct {
	ID       int      `json:"id"`
	Error    string   `json:"error,omitempty"`
	Answer   []byte   `json:"answer,omitempty"`
	Answers  [][]byte `json:"answers,omitempty"`
	Piece    []byte   `json:"piece,omitempty"`
	Answered int      `json:"answered"`
	Port     int      `json:"port"`
	Streams  int      `json:"streams"`
}

type session struct {
	to      *target
	conn    *quic.Conn
	moving  sync.Mutex
	socket  *socket
	mu      sync.Mutex
	out     *json.Encoder
	watches map[int]*quic.Stream
}

// serve does what the lines say, each beside the others, on one connection.
func serve(to *target, in io.Reader, out io.Writer) error {
	local, err := newSocket()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), to.timeout)
	conn, err := to.dial(ctx, &quic.Transport{Conn: local})
	cancel()
	if err != nil {
		return err
	}
	s := &session{to: to, conn: conn, socket: local, out: json.NewEncoder(out), watches: map[int]*quic.Stream{}}
	s.report(report{Port: local.port()})
	lines := json.NewDecoder(in)
	var running sync.WaitGroup
	for {
		var o order
		if err := lines.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		running.Add(1)
		go func() {
			defer running.Done()
			r, err := s.do(o)
			if err != nil {
				r.Error = err.Error()
			}
			r.ID = o.ID
			s.report(r)
		}()
	}
	running.Wait()
	return conn.CloseWithError(0, "")
}

func (s *session) report(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Encode(r)
}

func (s *session) do(o order) (report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.to.timeout)
	defer cancel()
	switch o.Do {
	case "exchange":
		answer, err := s.exchange(ctx, o)
		return report{Answer: answer, Port: s.port()}, err
	case "burst":
		return s.burst(ctx, o)
	case "flood":
		return flood(o, func() ([]byte, error) {
			ctx, cancel := context.WithTimeout(context.Background(), s.to.timeout)
			defer cancel()
			return exchange(ctx, s.conn, o.Request)
		})
	case "handshakes":
		return flood(o, func() ([]byte, error) { return s.to.fresh(o.Request) })
	case "change":
		err := s.change(ctx, o.Change)
		return report{Port: s.port()}, err
	case "watch":
		return s.watch(ctx, o)
	case "end":
		return s.end(o.Of)
	}
	return report{}, fmt.Errorf("no such thing to do: %q", o.Do)
}

func (s *session) port() int {
	s.moving.Lock()
	defer s.moving.Unlock()
	return s.socket.port()
}

// exchange sends a request and reads its answer, and changes the port half-way if the order says so.
func (s *session) exchange(ctx context.Context, o order) ([]byte, error) {
	stream, err := open(ctx, s.conn)
	if err != nil {
		return nil, err
	}
	half := len(o.Request)
	if o.At == "request" {
		half /= 2
	}
	if _, err := stream.Write(o.Request[:half]); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	if o.At == "request" {
		if err := s.change(ctx, o.Change); err != nil {
			return nil, err
		}
	}
	if _, err := stream.Write(o.Request[half:]); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	if o.At != "answer" {
		return finish(stream)
	}
	if err := stream.Close(); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	first := make([]byte, o.Count)
	if _, err := io.ReadFull(stream, first); err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	if err := s.change(ctx, o.Change); err != nil {
		return nil, err
	}
	rest, err := io.ReadAll(stream)
	if err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	return append(first, rest...), nil
}

// burst has all requests open at once before it ends the first of them.
func (s *session) burst(ctx context.Context, o order) (report, error) {
	streams := make([]*quic.Stream, len(o.Requests))
	for i, request := range o.Requests {
		stream, err := open(ctx, s.conn)
		if err != nil {
			return report{Streams: i}, err
		}
		if _, err := stream.Write(request); err != nil {
			return report{Streams: i}, err
		}
		streams[i] = stream
	}
	r := report{Streams: len(streams), Answers: make([][]byte, len(streams))}
	failures := make([]error, len(streams))
	var running sync.WaitGroup
	for i, stream := range streams {
		running.Add(1)
		go func() {
			defer running.Done()
			r.Answers[i], failures[i] = finish(stream)
		}()
	}
	running.Wait()
	return r, errors.Join(failures...)
}

// flood asks the same thing again and again, and counts the answers that end as they should.
func flood(o order, ask func() ([]byte, error)) (report, error) {
	turns := make(chan struct{}, o.Count)
	for range o.Count {
		turns <- struct{}{}
	}
	close(turns)
	var running sync.WaitGroup
	var mu sync.Mutex
	var r report
	var first error
	for range o.Parallel {
		running.Add(1)
		go func() {
			defer running.Done()
			for range turns {
				answer, err := ask()
				if err == nil && !bytes.HasSuffix(answer, o.Expected) {
					err = fmt.Errorf("another answer: %q", answer)
				}
				mu.Lock()
				if err == nil {
					r.Answered++
				} else if first == nil {
					first = err
				}
				mu.Unlock()
			}
		}()
	}
	running.Wait()
	return r, first
}

// change goes on from another port. rebind: the connection does not know of it; migrate: it tries the new way first,
// as RFC 9000 section 9 has it, and then leaves the old one.
func (s *session) change(ctx context.Context, how string) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	switch how {
	case "rebind":
		return s.socket.rebind()
	case "migrate":
		fresh, err := newSocket()
		if err != nil {
			return err
		}
		path, err := s.conn.AddPath(&quic.Transport{Conn: fresh})
		if err != nil {
			return fmt.Errorf("add path: %w", err)
		}
		if err := path.Probe(ctx); err != nil {
			return fmt.Errorf("probe path: %w", err)
		}
		if err := path.Switch(); err != nil {
			return fmt.Errorf("switch path: %w", err)
		}
		s.socket.dead.Store(true)
		s.socket = fresh
		return nil
	}
	return fmt.Errorf("no such change: %q", how)
}

// watch reports an answer piece by piece until it ends.
func (s *session) watch(ctx context.Context, o order) (report, error) {
	stream, err := s.conn.OpenStreamSync(ctx)
	if err != nil {
		return report{}, err
	}
	if _, err := stream.Write(o.Request); err != nil {
		return report{}, err
	}
	if err := stream.Close(); err != nil {
		return report{}, err
	}
	s.mu.Lock()
	s.watches[o.ID] = stream
	s.mu.Unlock()
	buffer := make([]byte, 64<<10)
	for {
		n, err := stream.Read(buffer)
		if n > 0 {
			s.report(report{ID: o.ID, Piece: buffer[:n]})
		}
		if errors.Is(err, io.EOF) {
			return report{}, nil
		} else if err != nil {
			return report{}, err
		}
	}
}

// end gives up a watch.
func (s *session) end(id int) (report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream, ok := s.watches[id]
	if !ok {
		return report{}, fmt.Errorf("no watch %d", id)
	}
	delete(s.watches, id)
	stream.CancelRead(0)
	return report{}, nil
}
