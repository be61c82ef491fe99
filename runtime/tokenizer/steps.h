// The steps of a tokenizer before the byte-pair encoding, as tokenizer.json describes them: its
// `normalizer` changes text, its `pre_tokenizer` cuts it into pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "base/result.h"

namespace foretrain {

// Changes a text in place.
using Normalizer = std::function<void(std::string& text)>;

// Calls `emit` for each piece, in order. `first`: the text is the beginning of the whole input.
using EmitPiece = std::function<void(std::string_view piece, bool first)>;
using Splitter = std::function<void(std::string_view text, bool first, const EmitPiece& emit)>;

struct Splitters {
  std::vector<Splitter> steps{};
  bool bytes = false;  // ends with ByteLevel: symbols are bytes
};

// `value`: the field of that name; null gives no steps. Errors: kUnsupported, a kind that is not
// known, by name; kCorruptInput, a field that is missing or wrong; those of Pattern.
Result<std::vector<Normalizer>> NormalizersOf(const JsonValue* value, std::string_view source);
Result<Splitters> SplittersOf(const JsonValue* value, std::string_view source);

// Passes the text through the steps from number `step` on, then to `emit`.
void RunSplitters(const std::vector<Splitter>& steps, std::size_t step, std::string_view text,
                  bool first, const EmitPiece& emit);

// Bytes as ByteLevel writes them, one printable character each (GPT-2), and back. BytesOfText:
// false if a character stands for no byte.
std::string TextOfBytes(std::string_view bytes);
bool BytesOfText(std::string_view text, std::string& bytes);

}  // namespace foretrain
