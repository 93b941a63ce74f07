// The echo on Go's net/http: `garden-go PORT`.
package main

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
)

var (
	lock   sync.Mutex
	counts = map[string]int{}
)

// echo writes one line about the request to the file SEEN, and responds with it.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	headers := [][2]string{{"host", r.Host}}
	for name, values := range r.Header {
		for _, value := range values {
			headers = append(headers, [2]string{name, value})
		}
	}
	var length any = len(body)
	if err != nil {
		length = nil
	}
	lock.Lock()
	defer lock.Unlock()
	counts[r.RemoteAddr]++
	line, _ := json.Marshal(map[string]any{"method": r.Method, "target": r.RequestURI, "headers": headers, "length": length,
		"body": hex.EncodeToString(body[:min(len(body), 512)]), "connection": r.RemoteAddr, "number": counts[r.RemoteAddr]})
	out, err := os.OpenFile(os.Getenv("SEEN"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	defer out.Close()
	out.Write(append(line, '\n'))
	w.Header().Set("Content-Type", "application/json")
	w.Write(line)
}

func main() {
	// The default multiplexer would redirect paths such as //a; a handler receives them unchanged.
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], http.HandlerFunc(echo)))
}
