// receiver HOST:PORT SECONDS: answers each request, and closes what is idle for that long.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	idle, err := time.ParseDuration(os.Args[2] + "s")
	if err != nil {
		log.Fatal(err)
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}
	server := http.Server{Addr: os.Args[1], Handler: http.HandlerFunc(answer), IdleTimeout: idle}
	log.Fatal(server.ListenAndServe())
}
