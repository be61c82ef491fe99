// Arithmetic and traffic of PyTorch's ops, by the shapes of their inputs, which the profiler
// records with record_shapes=True.
#pragma once

#include <cstdint>
#include <string_view>

#include "traces/import/kineto/json_events.h"
#include "traces/import/raw_events.h"

namespace foretrain::trace_import {

// An element type of PyTorch. `format` is empty for types that no product takes.
struct ElementType {
  std::int64_t bytes = 0;  // 0: unknown
  std::string_view format{};
};

// By the names that PyTorch uses: "c10::BFloat16", "BFloat16", "bfloat16", "float", "long int", ...
ElementType ElementOf(std::string_view type);

// The work of a host op, from "Input Dims", "Input type" and "Concrete Inputs". Products are mm,
// addmm, bmm, baddbmm and _scaled_mm; attention counts if it is known whether it is causal (half of
// the scores then). Other ops have no flops. bytes is 0 if a tensor's type or shape is missing.
OpWork WorkOf(const JsonEvent& event);

}  // namespace foretrain::trace_import
