// A Go server that guards nothing: `admin PORT`. It answers ADMIN below /admin and OPEN elsewhere, by the mux of the standard library.
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	mux := http.NewServeMux()
	admin := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ADMIN") }
	mux.HandleFunc("/admin", admin)
	mux.HandleFunc("/admin/", admin)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "OPEN") })
	if err := http.ListenAndServe("127.0.0.1:"+os.Args[1], mux); err != nil {
		panic(err)
	}
}
