// Chooses the algorithm by which a device's library computes products: times them, and makes a
// queue use those in a profile. Their format is in sim/cost/kernels/gemm_algorithms.h.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/device_api.h"
#include "base/result.h"
#include "sim/cost/kernels/gemm_algorithms.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// The product of an op that calls gemm. Its pointers only say which parts exist: a bias if
// `has_bias`, the stored input of an activation, row sums.
FtGemm ProductOf(const Op& op, bool has_bias);

// The stored algorithm for products like `g`; null if there is none.
const GemmAlgorithm* FindAlgorithm(const GemmAlgorithms& algorithms, const FtGemm& g);

// Why the device does not use them: it has no such library, or another version. Empty if they are
// used, or if there are none.
std::string WhyNotUsed(const FtDeviceApi& api, const GemmAlgorithms& algorithms);

// Why products with block scales all run on the device's own kernels: its library has none yet, or
// none for compute capability `capability` / 10. Empty if the library computes them, or the device
// has no library.
std::string WhyNoLibraryBlocks(const FtDeviceApi& api, int capability);

// From now on `queue` computes products like `gemms` with their stored algorithms. If the library
// refuses one, its own choice stays. Does nothing if WhyNotUsed gives a reason. Errors: the
// device's.
Result<void> UseGemmAlgorithms(const FtDeviceApi& api, FtQueue* queue,
                               const GemmAlgorithms& algorithms, std::span<const FtGemm> gemms);

struct TuneOptions {
  int device = 0;
  int candidates = 8;  // for each product, the library's own choice first
  int rounds = 5;      // alternating rounds; a time is their median
  int launches = 4;    // in each round, fewer if they take long
  // Called before each product; may be null. True: the time for this is spent, and the products
  // that are left keep the library's own choice.
  std::function<bool()> is_over{};
  std::function<bool()> stop{};  // called before each product; may be null
};

// Finds the fastest algorithm for each of `products`, which must differ. The library's own choice
// wins unless another is 2 % faster, so that noise changes nothing. If the library does not support
// a product's parts, the plain product is timed. Measured by device events, with operands of equal
// numbers. Empty if the device has no such library.
//
// Errors: the device's; kResourceExhausted, no memory for the operands; kAborted if stopped.
Result<GemmAlgorithms> TuneGemms(const FtDeviceApi& api, std::span<const FtGemm> products,
                                 const TuneOptions& options);

}  // namespace foretrain
