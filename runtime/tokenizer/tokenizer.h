// Byte-pair tokenizers in the format of Hugging Face's tokenizer.json: text to token ids and back.
// Ids equal those of the library `tokenizers`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

// A token that is found in text before anything else, such as "<|endoftext|>".
struct AddedToken {
  std::string text{};
  std::int32_t id = 0;
  bool single_word = false;  // only where no word goes on around it
  bool takes_left = false;   // takes the white space before it
  bool takes_right = false;  // takes the white space behind it
  bool normalized = false;   // found after normalization
  bool special = false;      // left out of decoded text, if asked for
};

// Safe from any thread.
class Tokenizer {
 public:
  // `path`: tokenizer.json, or the folder with it. Errors: of reading; kCorruptInput and
  // kUnsupported, naming the file and the field: not such a file, or a kind of step or model that
  // is not known.
  static Result<std::unique_ptr<Tokenizer>> Open(FileSystem& files, const std::string& path);
  // As Open, of the file's text.
  static Result<std::unique_ptr<Tokenizer>> FromJson(std::string_view text,
                                                     std::string_view source);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The ids of a text. `adds_special`: with the tokens that the file puts around a text. Broken
  // UTF-8 becomes U+FFFD.
  std::vector<std::int32_t> Encode(std::string_view text, bool adds_special) const;

  // The text of ids; ids that are no token are left out. `skips_special`: without special tokens.
  std::string Decode(std::span<const std::int32_t> ids, bool skips_special) const;

  // One more than the largest id.
  std::int32_t vocab_size() const;
  // The id of a token, by its text; -1 if there is none.
  std::int32_t IdOf(const std::string& token) const;
  // The token that ends a document: the first that the file knows of the usual names; -1: none.
  std::int32_t EndOfText() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace foretrain
