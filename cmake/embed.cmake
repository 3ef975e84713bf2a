# Turns files into C arrays: cmake -DOUTPUT=x.c -DFILES=a:symbol;b:symbol -P embed.cmake
# Each symbol is `const unsigned char symbol[]`, NUL-terminated, with `const unsigned symbol_size`.
set(text "/* Made by cmake/embed.cmake. */\n")
foreach(entry ${FILES})
  string(REGEX REPLACE "^(.*):([^:]*)$" "\\1" file "${entry}")
  string(REGEX REPLACE "^(.*):([^:]*)$" "\\2" symbol "${entry}")
  file(READ "${file}" hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND text "extern const unsigned char ${symbol}[];\nextern const unsigned ${symbol}_size;\n"
                     "const unsigned char ${symbol}[] = {\n${hex}0};\n"
                     "const unsigned ${symbol}_size = ${size};\n")
endforeach()
file(WRITE "${OUTPUT}" "${text}")
