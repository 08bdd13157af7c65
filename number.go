package iotax

import (
	"encoding/json"
	"math"
)

// A Number is a float64 that is encoded as null in JSON if it is NaN or infinite. It decodes null as NaN.
type Number float64

func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func (n *Number) UnmarshalJSON(b []byte) error {
	*n = Number(math.NaN())
	return json.Unmarshal(b, (*float64)(n)) // json.Unmarshal leaves the NaN unchanged for null
}

type numbers []float64

func (ns numbers) MarshalJSON() ([]byte, error) {
	all := make([]Number, len(ns))
	for i, n := range ns {
		all[i] = Number(n)
	}
	return json.Marshal(all)
}

func (ns *numbers) UnmarshalJSON(b []byte) error {
	var all []Number
	err := json.Unmarshal(b, &all)
	for _, n := range all {
		*ns = append(*ns, float64(n))
	}
	return err
}

type valueJSON struct {
	Name   ValueName `json:"name"`
	Value  Number    `json:"value"`
	Unit   string    `json:"unit"`
	Better Better    `json:"better,omitempty"`
}

func (v Value) MarshalJSON() ([]byte, error) {
	return json.Marshal(valueJSON{v.Name, Number(v.Value), v.Unit, v.Better})
}

func (v *Value) UnmarshalJSON(b []byte) error {
	var j valueJSON
	err := json.Unmarshal(b, &j)
	*v = Value{j.Name, float64(j.Value), j.Unit, j.Better}
	return err
}

type seriesJSON struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	T    numbers `json:"t"`
	V    numbers `json:"v"`
}

func (s Series) MarshalJSON() ([]byte, error) {
	return json.Marshal(seriesJSON{s.Name, s.Unit, s.T, s.V})
}

func (s *Series) UnmarshalJSON(b []byte) error {
	var j seriesJSON
	err := json.Unmarshal(b, &j)
	*s = Series{j.Name, j.Unit, j.T, j.V}
	return err
}

type binJSON struct {
	Value Number `json:"value"`
	Count uint64 `json:"count"`
}

func (b Bin) MarshalJSON() ([]byte, error) { return json.Marshal(binJSON{Number(b.Value), b.Count}) }

func (b *Bin) UnmarshalJSON(text []byte) error {
	var j binJSON
	err := json.Unmarshal(text, &j)
	*b = Bin{float64(j.Value), j.Count}
	return err
}
