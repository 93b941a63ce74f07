// Go's net/http as a client: `client-go URL CA-FILE`. One line for each check: `ok NAME` or `failed NAME: REASON`.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

var base = os.Args[1]

func pattern(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i % 251)
	}
	return out
}

// client has one HTTP version.
func client(h2 bool) *http.Client {
	pool := x509.NewCertPool()
	pem, _ := os.ReadFile(os.Args[2])
	pool.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2}
	if !h2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return &http.Client{Transport: transport, Timeout: 60 * time.Second}
}

func get(c *http.Client, path string, n int) error {
	response, err := c.Get(base + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if !bytes.Equal(body, pattern(n)) {
		return fmt.Errorf("%d bytes, expected %d of the pattern", len(body), n)
	}
	return nil
}

// upload has no length and a trailer.
func upload(c *http.Client) error {
	request, _ := http.NewRequest("POST", base+"/sum", io.MultiReader(bytes.NewReader(pattern(10_000_000))))
	request.Trailer = http.Header{"X-Sent": {"all"}}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var found struct {
		Length   int
		Trailers http.Header
	}
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil {
		return err
	}
	if found.Length != 10_000_000 || found.Trailers.Get("X-Sent") != "all" {
		return fmt.Errorf("the backend received %d bytes, trailers %v", found.Length, found.Trailers)
	}
	return nil
}

func trailer(c *http.Client) error {
	request, _ := http.NewRequest("GET", base+"/stream?n=100000", nil)
	request.Header.Set("TE", "trailers")
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || len(body) != 100000 || response.Trailer.Get("X-Checksum") != "done" {
		return fmt.Errorf("%d bytes, trailer %q, %v", len(body), response.Trailer.Get("X-Checksum"), err)
	}
	return nil
}

// parallel has 50 requests at once.
func parallel(c *http.Client) error {
	var group sync.WaitGroup
	failures := make(chan error, 50)
	for i := range 50 {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := get(c, fmt.Sprintf("/bytes?n=%d", 1000*i), 1000*i); err != nil {
				failures <- err
			}
		}()
	}
	group.Wait()
	close(failures)
	return <-failures
}

// cancel gives up one request; the next one must not notice.
func cancel(c *http.Client) error {
	limit, done := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer done()
	request, _ := http.NewRequestWithContext(limit, "GET", base+"/slow?ms=2000", nil)
	if _, err := c.Do(request); err == nil {
		return fmt.Errorf("a response came before its time")
	}
	return get(c, "/bytes?n=5000", 5000)
}

func cutOff(c *http.Client) error {
	for _, path := range []string{"/cut-length", "/cut-chunks"} {
		response, err := c.Get(base + path)
		if err != nil {
			continue
		}
		_, err = io.ReadAll(response.Body)
		response.Body.Close()
		if err == nil && response.StatusCode == 200 {
			return fmt.Errorf("%s: a response that the backend cut off seems whole", path)
		}
	}
	return nil
}

func main() {
	checks := []struct {
		name string
		run  func(*http.Client) error
	}{
		{"GET of 10 MB", func(c *http.Client) error { return get(c, "/bytes?n=10000000", 10_000_000) }},
		{"upload without a length, trailer", upload}, {"trailer of a response", trailer}, {"50 requests at once", parallel},
		{"cancelled request", cancel}, {"cut-off responses", cutOff},
	}
	for _, h2 := range []bool{false, true} {
		version := map[bool]string{false: "h1", true: "h2"}[h2]
		for _, check := range checks {
			if err := check.run(client(h2)); err != nil {
				fmt.Printf("failed %s %s: %v\n", version, check.name, err)
			} else {
				fmt.Printf("ok %s %s\n", version, check.name)
			}
		}
	}
}
