# cmake -D IN=file -D OUT=file.cc -D ID=name -D NAMESPACE=ns -P embed_file.cmake: writes a text file as a std::string_view.
file(READ "${IN}" text)
set(end ")ft_data\"")
string(FIND "${text}" "${end}" at)
if(NOT at EQUAL -1)
  message(FATAL_ERROR "${IN}: holds ${end}, which ends the literal it is embedded in")
endif()
file(WRITE "${OUT}" "// Generated.\n#include <string_view>\n\nnamespace foretrain::${NAMESPACE} {
extern const std::string_view ${ID};
const std::string_view ${ID}{R\"ft_data(" "${text}" ")ft_data\"};\n}\n")
