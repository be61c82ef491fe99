// BlockBuilder appends ops and slots to a Block and cuts a backward block into its input-gradient
// and weight-gradient halves (zero-bubble schedules). Which ops a block has: layer.cc,
// embedding.cc, head.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/program/blocks/packed_tensors.h"
#include "sim/program/ir/op.h"

namespace foretrain {

inline constexpr std::int64_t kFloatBytes = 4;
// Index of a saved tensor that exists only because the backward was cut in two: this plus its slot
// number.
inline constexpr int kFirstHeld = 1024;

constexpr Operand In(std::int16_t slot) { return {slot, Access::kRead}; }
constexpr Operand Out(std::int16_t slot) { return {slot, Access::kWrite}; }
constexpr Operand InOut(std::int16_t slot) { return {slot, Access::kReadWrite}; }

// Default formats of a block's tensors and ops.
struct BlockFormats {
  NumberFormat activations = NumberFormat::kFp32;
  NumberFormat products = NumberFormat::kFp32;   // arithmetic and operands of GEMMs
  NumberFormat attention = NumberFormat::kFp32;  // arithmetic of attention
};

// The operand of a linear's GEMMs that a tensor is. The Columns roles belong to the weight
// gradient's GEMM, whose reduction runs over rows.
enum class OperandRole : std::uint8_t {
  kInput,
  kOutputGradient,
  kWeight,
  kInputColumns,
  kOutputGradientColumns,
};

// Operand of a GEMM: numbers or codes, and the scales of the codes (kNoSlot if the codes carry
// their own).
struct ProductOperand {
  std::int16_t numbers = kNoSlot;
  std::int16_t scales = kNoSlot;
};

// Describes the cast of a tensor for a GEMM: the prefix of the op's name, the numbers in a row, and
// the counts tensor that says how many rows are valid (kNoSlot: all of them).
struct CastRequest {
  std::string name;
  std::int64_t cols = 0;
  std::int16_t counts = kNoSlot;
};

class BlockBuilder {
 public:
  explicit BlockBuilder(std::string name, const BlockFormats& formats = {}) : formats_(formats) {
    block_.name = std::move(name);
  }

  // Adds a slot of `elements` numbers in the format of activations; ids, targets, document
  // starts, losses and loads have 4 bytes each. Returns kNoSlot if elements == 0.
  std::int16_t Slot(std::string name, std::int64_t elements, Category category, SlotRole role,
                    int index = 0);
  // The same in a given format.
  std::int16_t SlotIn(NumberFormat format, std::string name, std::int64_t elements,
                      Category category, SlotRole role, int index = 0);
  // The same with a given size in bytes.
  std::int16_t SlotOfBytes(std::string name, std::int64_t bytes, Category category, SlotRole role,
                           int index = 0);
  // Adds the slot as given.
  std::int16_t Add(TensorSlot slot);
  std::int16_t Temporary(std::string name, std::int64_t elements) {
    return Slot(std::move(name), elements, Category::kWorkspace, SlotRole::kTemporary);
  }
  std::int16_t TemporaryIn(NumberFormat format, std::string name, std::int64_t elements,
                           Category category = Category::kWorkspace) {
    return SlotIn(format, std::move(name), elements, category, SlotRole::kTemporary);
  }
  // Adds the slot of a parameter stored in 4 bits (NF4), made of `tensors`.
  std::int16_t PackedSlot(std::string name, std::vector<PackedTensor> tensors, Category category,
                          SlotRole role, int index);
  NumberFormat FormatOf(std::int16_t slot) const {
    return block_.slots[static_cast<std::size_t>(slot)].format;
  }
  const BlockFormats& formats() const { return formats_; }
  // Sets the format of GEMMs added from here on.
  void ComputeIn(NumberFormat products) { formats_.products = products; }
  // A view of `of`, itself a tensor or a view: `elements` numbers from `first` on, shifted by
  // `per_rank` numbers for each tp coordinate.
  std::int16_t View(std::string name, std::int16_t of, std::int64_t first, std::int64_t elements,
                    std::int64_t per_rank = 0);

  // Assigns all ops added so far to this half.
  void AllIn(Pass half) { halves_.assign(halves_.size(), half); }
  // Assigns the ops added from here on to this half of a backward: kBackwardInput or
  // kBackwardWeight.
  void Half(Pass half) { half_ = half; }

  // Adds an op with `operands` in the order that the table of ops lists for its kind. The reference
  // is valid until the next Add. The second form takes the class from the kind, which must be
  // arithmetic.
  Op& Add(OpKind kind, OpClass op_class, std::string name, std::initializer_list<Operand> operands);
  Op& Add(OpKind kind, std::string name, std::initializer_list<Operand> operands);

  // The last op added.
  Op& Last() { return block_.ops.back(); }
  // Gives the last op one more operand, which it reads; kNoSlot: none.
  void AlsoReads(std::int16_t slot);

  // Casts `from`, in rows of `cols`, to the format of `to`, which has as many numbers. `name`: of
  // the op. `counts`: as in CastRequest.
  void Cast(const std::string& name, std::int16_t from, std::int16_t to, std::int64_t cols = 0,
            std::int16_t counts = kNoSlot);
  // The same, but a per-tensor scale is the maximum over all tp ranks. Rows that the ranks
  // all-gather must share one scale.
  void CastTogether(const std::string& name, std::int16_t from, std::int16_t to, std::int64_t cols);
  // The operand that a GEMM reads for `tensor`: the tensor itself if it has the products' format.
  // Else a cast under `category`, made once by an op called `name`.cast.
  std::int16_t ForProduct(const std::string& name, std::int16_t tensor,
                          Category category = Category::kWorkspace);
  ProductOperand ForProduct(const CastRequest& request, std::int16_t tensor, OperandRole role);
  // Codes and scales of a tensor that has both, or of a view of one.
  ProductOperand PartsOf(std::int16_t tensor);
  // Declares that the parts of the tensor beginning at these numbers are cast one by one. With
  // per-tensor scaling each part then has its own scale.
  void CutAt(std::int16_t tensor, std::vector<std::int64_t> firsts);

  // ForProduct for a weight [out, in], which may be stored in 4 bits. Each of its packed tensors is
  // then dequantized by an op called `name`.dequantize, numbered if there are several.
  ProductOperand WeightForProduct(const std::string& name, std::int16_t weight, std::int64_t out,
                                  std::int64_t in);

  // c (+)= op(a) op(b) + bias
  Op& Gemm(const std::string& name, const ProductOperand& a, const ProductOperand& b,
           std::int16_t bias, Operand c);

  // y[rows, out] (+)= factor x[rows, in] w[out, in]^T + bias
  void Linear(const std::string& name, std::int16_t x, std::int16_t weight, std::int16_t bias,
              std::int16_t y, std::int64_t rows, std::int64_t out, std::int64_t in,
              bool adds = false, double factor = 1);
  // dx[rows, in] (+)= factor dy[rows, out] w[out, in]
  void LinearInputGradient(const std::string& name, std::int16_t dy, std::int16_t weight,
                           std::int16_t dx, std::int64_t rows, std::int64_t out, std::int64_t in,
                           bool adds = false, double factor = 1);
  // dw[out, in] (+)= factor dy[rows, out]^T x[rows, in]; dbias[out] (+)= column sums of dy. Either
  // is skipped if its slot is kNoSlot.
  void LinearWeightGradient(const std::string& name, std::int16_t dy, std::int16_t x,
                            std::int16_t weight_grad, std::int16_t bias_grad, std::int64_t rows,
                            std::int64_t out, std::int64_t in, bool accumulate, double factor = 1);
  // dbias[out] (+)= column sums of dy[rows, out]; nothing if there is no bias gradient.
  void BiasGradient(const std::string& name, std::int16_t dy, std::int16_t bias_grad,
                    std::int64_t rows, std::int64_t out, bool accumulate);
  // Collectives over the tensor-parallel group on its queue. `elements` counts the whole tensor.
  // The all-reduce is in place.
  Op& TpAllReduce(const std::string& name, std::int16_t tensor, std::int64_t elements);
  void TpReduceScatter(const std::string& name, std::int16_t whole, std::int16_t shard,
                       std::int64_t elements);
  void TpAllGather(const std::string& name, std::int16_t shard, std::int16_t whole,
                   std::int64_t elements);
  // All-gathers `own` over the tp group into a temporary called `name` of `elements` numbers. If
  // `own` is in codes, the codes are gathered.
  std::int16_t TpGathered(const std::string& name, std::int16_t own, std::int64_t elements);

  // Appends another block's slots and ops, keeping their halves. `place` maps a slot of `part` to a
  // slot of this block; if it returns kNoSlot, a new slot is added as `place` left it. Names get
  // the prefix.
  void Splice(const BlockBuilder& part, const std::string& prefix,
              const std::function<std::int16_t(TensorSlot&)>& place);

  // The finished block: all ops for kBackward and for passes without halves, else the ops of
  // `half`. A temporary that one half writes and the other reads becomes a saved tensor of both.
  Block Copy(Pass half = Pass::kBackward) const;
  // The same, moved out. The builder must not be used afterwards.
  Block Take(Pass half = Pass::kBackward);

 private:
  // View of one packed tensor of a parameter in 4 bits.
  std::int16_t PackedView(std::string name, std::int16_t of, const PackedTensor& tensor);
  // An earlier cast of the tensor that is still valid, or kNoSlot.
  std::int16_t KnownCast(std::int16_t tensor, NumberFormat format) const;
  // Format in which an operand of this role is read, scales included.
  NumberFormat CastFormat(OperandRole role) const;
  // True if the tensor is codes with separate scales.
  bool HasParts(std::int16_t tensor) const {
    return parts_.contains(tensor) || HasScalesApart(FormatOf(tensor));
  }
  void MakeParts(std::int16_t tensor, NumberFormat codes);
  std::int16_t CastSlot(const CastRequest& request, std::int16_t tensor, OperandRole role);
  // BytesOf: a byte range of a tensor, read in `format`. ViewOfCodes: a view of a tensor that has
  // codes and scales.
  std::int16_t BytesOf(std::string name, std::int16_t of, NumberFormat format, std::int64_t offset,
                       std::int64_t bytes);
  std::int16_t ViewOfCodes(std::string name, std::int16_t of, std::int64_t first,
                           std::int64_t elements);
  Op& TpCollective(OpKind kind, const std::string& name, Operand in, Operand out,
                   std::int64_t elements);

  Block block_;
  BlockFormats formats_;
  // Casts for GEMMs, by slot, format and half. The half counts because an input half must read
  // nothing that the weight half writes.
  std::map<std::tuple<std::int16_t, NumberFormat, bool>, std::int16_t> casts_;
  // Codes and scales, by slot: of tensors with separate scales and of views of their codes.
  struct Parts {
    ProductOperand at = {};
    NumberFormat format = NumberFormat::kFp8Tensor;
    std::vector<std::int64_t> firsts = {};  // first numbers given to CutAt; each part has a scale
  };
  std::map<std::int16_t, Parts> parts_;
  std::map<std::int16_t, std::int64_t> elements_;  // numbers of tensors with separate scales
  std::map<std::int16_t, std::vector<PackedTensor>> packed_;  // by slot, of parameters in 4 bits
  std::vector<Pass> halves_;                                  // one per op
  Pass half_ = Pass::kNone;
};

}  // namespace foretrain
