module iotax

go 1.26
