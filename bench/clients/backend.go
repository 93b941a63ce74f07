// The backend of scripts/http-clients: every kind of response, on one port. `client-backend PORT`.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// all is what every client can compute: byte i is i modulo 251. Made once, so that large responses cost the backend nothing.
var all = bytes.Repeat(pattern251(), 200_000)

func pattern251() []byte {
	out := make([]byte, 251)
	for i := range out {
		out[i] = byte(i)
	}
	return out
}

func pattern(n int) []byte { return all[:n] }

func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.URL.Query().Get(name))
	return n
}

// sum responds with what it received: length and hash of the content, fields, trailers.
func sum(w http.ResponseWriter, r *http.Request) {
	hash := sha256.New()
	length, err := io.Copy(hash, r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out, _ := json.Marshal(map[string]any{"length": length, "sha256": hex.EncodeToString(hash.Sum(nil)), "headers": r.Header,
		"trailers": r.Trailer, "te": r.TransferEncoding, "declared": r.ContentLength, "method": r.Method, "host": r.Host, "target": r.RequestURI})
	w.Header().Set("Content-Type", "application/json")
	w.Write(out)
}

// stream responds in pieces, without a length, with a trailer.
func stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "X-Checksum")
	body := pattern(number(r, "n"))
	for len(body) > 0 {
		piece := min(len(body), 10000)
		w.Write(body[:piece])
		w.(http.Flusher).Flush()
		body = body[piece:]
	}
	w.Header().Set("X-Checksum", "done")
}

// echo sends content back while it arrives.
func echo(w http.ResponseWriter, r *http.Request) {
	http.NewResponseController(w).EnableFullDuplex()
	buffer := make([]byte, 32768)
	for {
		n, err := r.Body.Read(buffer)
		w.Write(buffer[:n])
		w.(http.Flusher).Flush()
		if err != nil {
			return
		}
	}
}

// raw writes bytes of a response by hand and closes: for responses that a front must not repair.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		connection, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			log.Fatal(err)
		}
		buffered.WriteString(text)
		buffered.Flush()
		connection.Close()
	}
}

// webSocket echoes messages until the close frame (RFC 6455).
func webSocket(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Sec-WebSocket-Key")
	if key == "" || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "no WebSocket", http.StatusBadRequest)
		return
	}
	digest := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	connection, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprintf(buffered, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(digest[:]))
	buffered.Flush()
	for frame(buffered) == nil {
	}
}

// frame echoes one frame without its mask; an error ends the connection.
func frame(buffered *bufio.ReadWriter) error {
	head := make([]byte, 2)
	if _, err := io.ReadFull(buffered, head); err != nil {
		return err
	}
	length := uint64(head[1] & 127)
	for code, size := range map[uint64]int{126: 2, 127: 8} {
		if length == code {
			wide := make([]byte, 8)
			if _, err := io.ReadFull(buffered, wide[8-size:]); err != nil {
				return err
			}
			length = binary.BigEndian.Uint64(wide)
			break
		}
	}
	data := make([]byte, 4+length)
	if _, err := io.ReadFull(buffered, data); err != nil {
		return err
	}
	mask, content := data[:4], data[4:]
	for i := range content {
		content[i] ^= mask[i%4]
	}
	buffered.WriteByte(head[0])
	switch {
	case length < 126:
		buffered.WriteByte(byte(length))
	case length < 65536:
		buffered.WriteByte(126)
		binary.Write(buffered, binary.BigEndian, uint16(length))
	default:
		buffered.WriteByte(127)
		binary.Write(buffered, binary.BigEndian, length)
	}
	buffered.Write(content)
	buffered.Flush()
	if head[0]&15 == 8 {
		return io.EOF
	}
	return nil
}

func main() {
	routes := http.NewServeMux()
	began := time.Unix(1700000000, 0)
	routes.HandleFunc("/sum", sum)
	routes.HandleFunc("/stream", stream)
	routes.HandleFunc("/echo", echo)
	routes.HandleFunc("/ws", webSocket)
	routes.HandleFunc("/bytes", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("ETag", `"pattern"`)
		http.ServeContent(w, r, "", began, bytes.NewReader(pattern(number(r, "n"))))
	})
	routes.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</r/1.js>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Write([]byte("after hints"))
	})
	routes.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "too large", http.StatusRequestEntityTooLarge) })
	routes.HandleFunc("/status", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(number(r, "code")) })
	routes.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(number(r, "ms")) * time.Millisecond)
		w.Write([]byte("slow"))
	})
	routes.HandleFunc("/cut-length", raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n0123456789"))
	routes.HandleFunc("/cut-chunks", raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5\r\n012"))
	routes.HandleFunc("/until-close", raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n0123456789"))
	routes.HandleFunc("/bad-length", raw("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n0123456789"))
	routes.HandleFunc("/r/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprintf(w, "window.loaded = (window.loaded || 0) + 1; // %s", r.URL.Path)
	})
	var result []byte
	routes.HandleFunc("/result", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			result, _ = io.ReadAll(r.Body)
		}
		w.Write(result)
	})
	routes.Handle("/page", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, os.Args[2]) }))
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], routes))
}
