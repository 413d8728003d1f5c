// Program lookup prints which credentials upstream's keyring finds for images. Standard input is a JSON object with
// the texts of docker configurations and with images; standard output has an answer for each configuration.
package main

import (
	"encoding/json"
	"log"
	"maps"
	"os"
	"slices"

	"k8s.io/kubernetes/pkg/credentialprovider"
)

type question struct {
	Configs []string `json:"configs"`
	Images  []string `json:"images"`
}

type login struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Email    string `json:"email"`
}

type answer struct {
	// Whether the configuration can be read.
	Valid bool `json:"valid"`
	// The credentials of each image, in the order in which they are tried.
	Found [][]login `json:"found"`
}

func lookUp(config string, images []string) answer {
	var read credentialprovider.DockerConfigJSON
	if err := json.Unmarshal([]byte(config), &read); err != nil {
		return answer{}
	}
	keyring := &credentialprovider.BasicDockerKeyring{}
	// One at a time, because the order of a map is random.
	for _, registry := range slices.Sorted(maps.Keys(read.Auths)) {
		keyring.Add(nil, credentialprovider.DockerConfig{registry: read.Auths[registry]})
	}
	result := answer{Valid: true, Found: [][]login{}}
	for _, image := range images {
		logins := []login{}
		credentials, _ := keyring.Lookup(image)
		for _, found := range credentials {
			logins = append(logins, login{found.Username, found.Password, found.Email})
		}
		result.Found = append(result.Found, logins)
	}
	return result
}

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	answers := []answer{}
	for _, config := range asked.Configs {
		answers = append(answers, lookUp(config, asked.Images))
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}
