// The kinds of ops and the families that most readers tell apart. Leaves out what each kind takes
// and makes: op_kinds.h has the whole rows of the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace foretrain {

enum class OpKind : std::uint8_t {
#define FT_OP(kind, family, work, ...) k##kind,
#include "sim/program/ops/op_kinds.def"
};

enum class OpFamily : std::uint8_t {
  kGemm,           // one product, alone or with what follows it
  kGroupedGemm,    // the products of experts
  kAttention,      // over whole sequences
  kAttentionPart,  // over a rank's share of each sequence
  kMemory,         // other kernels: their bytes set their time
  kUpdate,         // kernels that update parameters
  kFill,
  kCollective,
  kTransfer,  // send, receive
  kCopy,
  kHost,
  kOpaque,
};

inline constexpr std::array kOpFamilies = {
#define FT_OP(kind, family, work, ...) OpFamily::family,
#include "sim/program/ops/op_kinds.def"
};
inline constexpr int kOpKindCount = static_cast<int>(kOpFamilies.size());

constexpr OpFamily FamilyOf(OpKind kind) { return kOpFamilies[static_cast<std::size_t>(kind)]; }

constexpr bool IsCollective(OpKind kind) { return FamilyOf(kind) == OpFamily::kCollective; }
// A send or a receive.
constexpr bool IsTransfer(OpKind kind) { return FamilyOf(kind) == OpFamily::kTransfer; }
constexpr bool IsCommunication(OpKind kind) { return IsCollective(kind) || IsTransfer(kind); }
// One product, alone or with what follows it.
constexpr bool IsGemm(OpKind kind) { return FamilyOf(kind) == OpFamily::kGemm; }
// A product or the products of experts.
constexpr bool IsProduct(OpKind kind) {
  return IsGemm(kind) || FamilyOf(kind) == OpFamily::kGroupedGemm;
}
constexpr bool IsAttention(OpKind kind) {
  return FamilyOf(kind) == OpFamily::kAttention || FamilyOf(kind) == OpFamily::kAttentionPart;
}
constexpr bool IsAttentionForward(OpKind kind) {
  return kind == OpKind::kAttentionForward || kind == OpKind::kStandardAttentionForward ||
         kind == OpKind::kAttentionPartForward;
}

// Scalar parameters of an op. The table says which kind has which; Op::Get and Op::Set check it.
enum class Attribute : std::uint8_t {
#define FT_ATTRIBUTE(name, member, place) k##name,
#include "sim/program/ops/op_kinds.def"
};

// Where an op keeps each attribute. No kind has two of one place.
inline constexpr std::array kAttributePlace = {
#define FT_ATTRIBUTE(name, member, place) std::size_t{place},
#include "sim/program/ops/op_kinds.def"
};
inline constexpr std::size_t kAttributePlaces = 3;
inline constexpr std::size_t kAttributeCount = kAttributePlace.size();
inline constexpr std::array<float, kAttributePlaces> kUnsetAttributes = {1.0F, 0.0F, 0.0F};
constexpr std::size_t PlaceOf(Attribute attribute) {
  return kAttributePlace[static_cast<std::size_t>(attribute)];
}

std::string_view Name(OpKind kind);  // "gemm", ...

}  // namespace foretrain
