// The answers that the console reads, as the api describes them. A test writes this file: see README.md beside `calls`.

export {};
