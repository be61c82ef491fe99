#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "app/cli/output_file.h"
#include "app/commands/commands.h"
#include "base/json/json.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/data/token_files.h"
#include "runtime/tokenizer/tokenizer.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxFileBytes = 8 * kGiB;

// Turns documents into one shard: a file is a document, or each line of a file of JSON lines.
class Tokenize final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positionals("FILE", files_, "Texts, or JSON lines (.jsonl) with a text each");
    arguments.Option("--tokenizer", tokenizer_, "PATH", "tokenizer.json, or the folder with it");
    arguments.Option("--out", out_, "FILE", "Shard to write");
    arguments.Option("--field", field_, "NAME", "Field of a JSON line that holds the text");
    arguments.Option("--end", end_, "TOKEN",
                     "Token behind each document; none: no token; default: the tokenizer's own");
    DeclareJson(arguments);
    arguments.Footer(
        "The shard has 16 bits a token if the vocabulary has at most 65,536, else 32, with the "
        "header of llm.c.\n"
        "  foretrain tokenize --tokenizer llama3 --out train.bin book.txt more.jsonl\n"
        "  foretrain train --data train.bin --model my-model.json");
  }

  // Everything but the texts is checked first, because large ones take minutes.
  Result<Exit> Run() override {
    if (tokenizer_.empty() || out_.empty() || files_.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "tokenize: give texts, --tokenizer PATH and --out FILE");
    }
    FT_TRY(CheckOutputFile("--out", out_));
    PosixFileSystem files;
    FT_ASSIGN(const auto tokenizer, Tokenizer::Open(files, tokenizer_));
    FT_ASSIGN(const std::int32_t end, EndOf(*tokenizer));
    std::vector<std::int32_t> tokens;
    std::int64_t documents = 0, bytes = 0;
    for (const std::string& file : files_) {
      FT_ASSIGN(const std::string text, ReadFile(files, file, kMaxFileBytes));
      FT_ASSIGN(const std::vector<std::string> texts, DocumentsOf(text, file));
      bytes += std::ssize(text);
      documents += std::ssize(texts);
      Append(*tokenizer, texts, end, tokens);
      if (!json_ && isatty(STDERR_FILENO) != 0) {
        std::fprintf(stderr, "\r\033[K%s: %s tokens", Printable(file).c_str(),
                     FormatSi(static_cast<double>(tokens.size()), "").c_str());
      }
    }
    if (!json_ && isatty(STDERR_FILENO) != 0) std::fputc('\n', stderr);
    FT_TRY(WriteShard(files, out_, tokens, tokenizer->vocab_size()));
    Print(*tokenizer, documents, bytes, std::ssize(tokens));
    return Exit::kDone;
  }

 private:
  // -1: none.
  Result<std::int32_t> EndOf(const Tokenizer& tokenizer) const {
    if (end_ == "none") return -1;
    const std::int32_t id = end_.empty() ? tokenizer.EndOfText() : tokenizer.IdOf(end_);
    if (id >= 0) return id;
    return Fail(ErrorCode::kInvalidArgument,
                end_.empty() ? tokenizer_ +
                                   ": no token that ends a text is known; give --end TOKEN, "
                                   "or --end none"
                             : "--end: \"" + Printable(end_) + "\" is no token of " + tokenizer_);
  }

  Result<std::vector<std::string>> DocumentsOf(const std::string& text,
                                               const std::string& file) const {
    if (!file.ends_with(".jsonl")) return std::vector<std::string>{text};
    std::vector<std::string> texts;
    std::int64_t number = 0;
    for (const std::string_view line : Split(text, '\n')) {
      ++number;
      if (Trim(line).empty()) continue;
      const std::string where = file + ", line " + std::to_string(number);
      FT_ASSIGN(const JsonValue value, ParseJson(line, where));
      const JsonValue* const found =
          value.kind() == JsonValue::Kind::kObject ? value.Find(field_) : nullptr;
      if (found == nullptr || found->kind() != JsonValue::Kind::kString) {
        return Fail(ErrorCode::kCorruptInput, where + ": has no text called \"" +
                                                  Printable(field_) + "\"; give --field NAME");
      }
      texts.push_back(found->AsString());
    }
    return texts;
  }

  // Documents are encoded on all cores and joined in their order.
  static void Append(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                     std::int32_t end, std::vector<std::int32_t>& tokens) {
    std::vector<std::vector<std::int32_t>> encoded(texts.size());
    ForEachInParallel(texts.size(), HardwareThreads(), [&](std::size_t i) {
      encoded[i] = tokenizer.Encode(texts[i], /*adds_special=*/false);
    });
    for (const std::vector<std::int32_t>& one : encoded) {
      tokens.insert(tokens.end(), one.begin(), one.end());
      if (end >= 0) tokens.push_back(end);
    }
  }

  void Print(const Tokenizer& tokenizer, std::int64_t documents, std::int64_t bytes,
             std::int64_t tokens) const {
    if (json_) {
      JsonWriter json;
      json.BeginObject().Field("schema", 1).Field("out", out_).Field("documents", documents);
      json.Field("bytes", bytes).Field("tokens", tokens);
      json.Field("vocab", tokenizer.vocab_size());
      std::puts(json.EndObject().Take().c_str());
      return;
    }
    std::printf("%s: %lld tokens of a vocabulary of %d, from %s in %lld document%s\n", out_.c_str(),
                static_cast<long long>(tokens), tokenizer.vocab_size(), FormatBytes(bytes).c_str(),
                static_cast<long long>(documents), documents == 1 ? "" : "s");
  }

  std::vector<std::string> files_;
  std::string tokenizer_, out_, end_;
  std::string field_ = "text";
};

}  // namespace

std::unique_ptr<Command> MakeTokenize() { return std::make_unique<Tokenize>(); }

}  // namespace foretrain
