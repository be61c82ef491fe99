#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "app/cli/output_file.h"
#include "app/commands/commands.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/data/data_sources.h"
#include "runtime/data/documents.h"
#include "runtime/data/token_writer.h"
#include "runtime/tokenizer/tokenizer.h"

namespace foretrain {
namespace {

// Turns documents into a file of tokens: a text is a document, or each line of a file of JSON
// lines.
class Tokenize final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positionals(
        "PATH", paths_, "Texts, JSON lines (.jsonl) with a text each, folders or patterns of them");
    arguments.Option("--tokenizer", tokenizer_, "PATH", "tokenizer.json, or the folder with it");
    arguments.Option("--out", out_, "FILE", "File to write");
    arguments.Choice("--format", format_,
                     {{"shard", TokenFormat::kShard}, {"megatron", TokenFormat::kMegatron}},
                     "One file with llm.c's header (shard), or Megatron's NAME.bin with NAME.idx, "
                     "which says where documents end and has no limit of tokens (megatron)");
    arguments.Option("--field", field_, "NAME", "Field of a JSON line that holds the text");
    arguments.Option("--end", end_, "TOKEN",
                     "Token behind each document; none: no token; default: the tokenizer's own");
    DeclareJson(arguments);
    arguments.Footer(
        "A token has 16 bits if the vocabulary has at most 65,536, else 32. All cores encode.\n"
        "  foretrain tokenize --tokenizer llama3 --out train.bin book.txt more.jsonl\n"
        "  foretrain tokenize --tokenizer llama3 --out code.bin --format megatron code/\n"
        "  foretrain train --data train.bin:0.7,code.bin:0.3 --shuffle --model my-model.json");
  }

  // Everything but the texts is checked first, because large ones take minutes.
  Result<Exit> Run() override {
    if (tokenizer_.empty() || out_.empty() || paths_.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "tokenize: give texts, --tokenizer PATH and --out FILE");
    }
    FT_TRY(CheckOutputFile("--out", out_));
    PosixFileSystem files;
    FT_TRY(FindFiles(files));
    FT_ASSIGN(const auto tokenizer, Tokenizer::Open(files, tokenizer_));
    FT_ASSIGN(const std::int32_t end, EndOf(*tokenizer));
    const auto write = [&](TokenWriter& writer) -> Result<void> {
      for (const std::string& file : files_) {
        FT_TRY(ReadDocuments(files, file, [&](const DocumentPart& part) -> Result<void> {
          FT_TRY(Append(*tokenizer, part, file, end, writer));
          ShowProgress(file, writer.tokens());
          return {};
        }));
      }
      documents_ = writer.documents(), tokens_ = writer.tokens();
      return {};
    };
    const auto written = WriteTokens(files, out_, format_, tokenizer->vocab_size(), write);
    if (ShowsProgress()) std::fputc('\n', stderr);
    FT_TRY(written);
    Print(*tokenizer);
    return Exit::kDone;
  }

 private:
  Result<void> FindFiles(FileSystem& files) {
    for (const std::string& path : paths_) {
      FT_ASSIGN(const std::vector<std::string> found, FilesOf(files, path));
      files_.insert(files_.end(), found.begin(), found.end());
    }
    for (const std::string& file : files_) {
      FT_ASSIGN(const FileInfo info, files.Stat(file));
      all_bytes_ += info.size_bytes;
    }
    return {};
  }

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

  // The lines of a part are read and encoded on all cores and written in their order.
  Result<void> Append(const Tokenizer& tokenizer, const DocumentPart& part, const std::string& file,
                      std::int32_t end, TokenWriter& writer) {
    const std::vector<std::string>& documents = part.documents;
    std::vector<Result<std::vector<std::int32_t>>> encoded(documents.size());
    ForEachInParallel(documents.size(), HardwareThreads(), [&](std::size_t i) {
      encoded[i] = Encode(tokenizer, documents[i], part.first_line, i, file);
      if (encoded[i].has_value() && end >= 0) encoded[i]->push_back(end);
    });
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      if (!encoded[i].has_value()) return tl::unexpected<Error>(encoded[i].error());
      if (part.first_line > 0 && Trim(documents[i]).empty()) continue;
      FT_TRY(writer.AddDocument(*encoded[i]));
    }
    bytes_ += part.bytes;
    return {};
  }

  // `first_line`: as in DocumentPart. A blank line has no tokens.
  Result<std::vector<std::int32_t>> Encode(const Tokenizer& tokenizer, const std::string& document,
                                           std::int64_t first_line, std::size_t number,
                                           const std::string& file) const {
    if (first_line == 0) return tokenizer.Encode(document, /*adds_special=*/false);
    if (Trim(document).empty()) return std::vector<std::int32_t>();
    const auto line = first_line + static_cast<std::int64_t>(number);
    FT_ASSIGN(const std::string text,
              TextOfLine(document, field_, file + ", line " + std::to_string(line)));
    return tokenizer.Encode(text, /*adds_special=*/false);
  }

  bool ShowsProgress() const { return !json_ && isatty(STDERR_FILENO) != 0; }

  void ShowProgress(const std::string& file, std::int64_t tokens) const {
    if (!ShowsProgress()) return;
    std::fprintf(stderr, "\r\033[K%s: %s of %s, %s tokens", Printable(file).c_str(),
                 FormatBytes(bytes_).c_str(), FormatBytes(all_bytes_).c_str(),
                 FormatSi(static_cast<double>(tokens), "").c_str());
  }

  void Print(const Tokenizer& tokenizer) const {
    if (json_) {
      JsonWriter json;
      json.BeginObject().Field("schema", 1).Field("out", out_).Field("documents", documents_);
      json.Field("bytes", bytes_).Field("tokens", tokens_);
      json.Field("vocab", tokenizer.vocab_size());
      std::puts(json.EndObject().Take().c_str());
      return;
    }
    std::printf("%s: %lld tokens of a vocabulary of %d, from %s in %lld document%s\n", out_.c_str(),
                static_cast<long long>(tokens_), tokenizer.vocab_size(),
                FormatBytes(bytes_).c_str(), static_cast<long long>(documents_),
                documents_ == 1 ? "" : "s");
  }

  std::vector<std::string> paths_, files_;
  std::string tokenizer_, out_, end_;
  std::string field_ = "text";
  TokenFormat format_ = TokenFormat::kShard;
  std::int64_t all_bytes_ = 0, bytes_ = 0;  // of all files, and read so far
  std::int64_t documents_ = 0, tokens_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeTokenize() { return std::make_unique<Tokenize>(); }

}  // namespace foretrain
