// Fastest library algorithms for products of given sizes. `calibrate` finds them and runs use them,
// so that a run's bits depend on a profile and not on timing. runtime/device/gemm_algorithms.h
// measures and applies them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "base/result.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// Operation after a product: none, an activation, or a multiplication by an activation's slope.
enum class GemmEpilogue : std::uint8_t { kNone, kActivate, kSlope };

// Algorithm for one product c[rows, cols] with depth `inner`.
struct GemmAlgorithm {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t inner = 0;
  bool accumulate = false;
  bool trans_a = false;
  bool trans_b = false;
  bool has_bias = false;
  bool has_aux = false;       // with kActivate: the activation's input is kept
  bool has_row_sums = false;  // sums of op(a) are computed with the product
  GemmEpilogue epilogue = GemmEpilogue::kNone;
  NumberFormat format = NumberFormat::kFp32;    // compute format
  NumberFormat operands = NumberFormat::kFp32;  // storage format of both operands
  NumberFormat bias = NumberFormat::kFp32;
  NumberFormat result = NumberFormat::kFp32;
  NumberFormat row_sums = NumberFormat::kFp32;
  std::array<std::uint64_t, 8> words{};  // the library's description, opaque
  double seconds = 0;                    // median
  double library_seconds = 0;  // median of the algorithm that the library's heuristic chooses

  bool operator==(const GemmAlgorithm&) const = default;
};

struct GemmAlgorithms {
  std::string library;  // name and version, "cublasLt-130100"; empty: not measured
  std::vector<GemmAlgorithm> of;

  bool operator==(const GemmAlgorithms&) const = default;
};

// Writes "library" and "of" into the object that is open. Words are 128 hexadecimal digits.
void WriteGemmAlgorithms(const GemmAlgorithms& algorithms, JsonWriter& json);

// Errors: kInvalidArgument for a missing, unknown or out-of-range field.
Result<void> ReadGemmAlgorithms(JsonFields fields, GemmAlgorithms& algorithms);

}  // namespace foretrain
